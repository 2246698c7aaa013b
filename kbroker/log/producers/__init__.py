"""What a log remembers of producers, on the disk and from its batches."""
