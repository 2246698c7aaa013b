"""What is in log directories: partitions, how far each may be read, its transactions."""
