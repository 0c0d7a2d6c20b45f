"""What loads the cluster, through pymongo as an application would: change-stream consumers and a paced writer."""
