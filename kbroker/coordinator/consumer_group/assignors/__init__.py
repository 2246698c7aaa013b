"""Assignors: they say which member of a consumer group reads which partition."""
