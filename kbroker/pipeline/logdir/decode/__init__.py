"""Segments as Arrow columns: records, and batches by their headers."""
