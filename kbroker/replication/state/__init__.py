"""Pure state of partitions."""
