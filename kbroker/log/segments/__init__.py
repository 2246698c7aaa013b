"""Segments of a log: records in files, and their indexes."""
