"""From files on the disk to open logs: what is there, what is believed, what is made anew."""
