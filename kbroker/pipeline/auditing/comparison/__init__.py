"""A log and its archive against each other."""
