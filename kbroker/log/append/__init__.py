"""Appends to a log: what comes in, what it must be, what the settings make of it."""
