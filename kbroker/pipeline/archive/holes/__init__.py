"""Why offsets of a topic hold no record, as its log tells."""
