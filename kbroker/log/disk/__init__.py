"""What a log directory looks like on a disk, and the one door to it."""
