"""Partitions, their leaders and followers, and requests that wait."""
