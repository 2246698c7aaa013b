"""What is in segments, as Arrow columns: records, and batches by their headers."""
