"""Reads log directories without being their broker: nothing is locked, nothing is written."""
