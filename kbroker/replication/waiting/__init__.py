"""Requests that wait for something to happen to a partition."""
