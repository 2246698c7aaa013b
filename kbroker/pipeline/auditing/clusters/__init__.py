"""A cluster against directories and archive."""
