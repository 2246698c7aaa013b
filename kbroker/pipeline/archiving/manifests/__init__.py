"""The content of an archive, and the one way to change it."""
