"""A log and its archive compared with each other."""
