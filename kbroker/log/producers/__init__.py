"""The memory that a log has of its producers, on the disk and from its batches."""
