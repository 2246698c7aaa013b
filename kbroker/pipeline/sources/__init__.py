"""Where a job reads from: a cluster, or log directories."""
