"""A Kafka broker in Python: real clients use it unchanged."""
