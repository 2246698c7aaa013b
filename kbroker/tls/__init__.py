"""TLS on Python's `ssl`, for listeners and for those who connect: contexts out of settings."""
