"""What loads the cluster, through pymongo or motor as an application would: streams, a paced writer, consumers."""
