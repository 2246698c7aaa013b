"""Changes of logs that this broker leads: appends, the flushes they wait for, deletions."""
