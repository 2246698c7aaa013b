"""`kbroker config`: settings read, changed, and taken from files."""
