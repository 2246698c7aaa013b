"""Requests and how they were answered, as values for a person who follows them."""
