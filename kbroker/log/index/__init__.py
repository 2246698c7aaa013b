"""The indexes of a segment: offsets, times, aborted transactions."""
