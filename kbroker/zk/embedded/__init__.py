"""The tree in this process, with its files."""
