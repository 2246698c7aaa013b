"""Observations in, findings out: a function for each kind of fault. Pure."""
