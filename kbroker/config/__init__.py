"""Kafka's settings: names, types, bounds, defaults. Pure."""
