"""What loads the cluster, through pymongo or motor as an application would: stream consumers and a paced writer."""
