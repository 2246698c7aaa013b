"""All logs of a broker: made, started, moved, deleted."""
