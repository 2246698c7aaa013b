"""What belongs to an archive, and the one way to change that."""
