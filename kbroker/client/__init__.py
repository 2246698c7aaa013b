"""Connections from broker to broker."""
