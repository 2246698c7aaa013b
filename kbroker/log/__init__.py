"""Log directories on disk: segments, indexes, recovery."""
