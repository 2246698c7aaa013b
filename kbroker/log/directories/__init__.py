"""Data directories: whose they are, what state they are in, and their checkpoint files."""
