"""What stands in segments, as Arrow columns: records, and batches by their headers."""
