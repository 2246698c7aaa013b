"""The work of the active controller on its cluster, by kind of event."""
