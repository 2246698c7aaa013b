"""Log directories, each by itself."""
