"""What changes a log that this broker leads: appends, the flushes they wait for, deletions."""
