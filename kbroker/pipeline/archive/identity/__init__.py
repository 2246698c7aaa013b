"""Whether a source still is the one that was archived: its cluster, and its leader epochs."""
