"""Coordination of groups and transactions."""
