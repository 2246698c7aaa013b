"""Committed offsets: how they are written, deleted with their topics, and read from old stores."""
