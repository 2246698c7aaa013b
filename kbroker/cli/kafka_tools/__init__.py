"""Kafka's own command-line tools, with their options and their output, done by our commands."""
