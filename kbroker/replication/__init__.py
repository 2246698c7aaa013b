"""Partitions, their leaders and followers, and the requests for them."""
