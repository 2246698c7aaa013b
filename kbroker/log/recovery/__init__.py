"""From files on the disk to open logs: what is there, what is trusted, what is rebuilt."""
