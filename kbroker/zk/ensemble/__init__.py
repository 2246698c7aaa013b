"""The tree on a ZooKeeper ensemble; the only place that knows kazoo."""
