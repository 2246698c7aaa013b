"""The files and formats of a log directory, and the one door to the disk."""
