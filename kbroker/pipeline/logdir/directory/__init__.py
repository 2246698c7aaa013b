"""Log directories: their partitions, how far each may be read, their transactions."""
