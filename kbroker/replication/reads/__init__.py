"""Reads of clients and followers: records, in sessions or not; offsets; data directories."""
