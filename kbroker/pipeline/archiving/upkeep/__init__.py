"""Merging and expiry, without Spark."""
