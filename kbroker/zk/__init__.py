"""The znode tree that holds the cluster's metadata."""
