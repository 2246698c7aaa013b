"""What any broker does with wishes of clients: topics, settings, producer ids."""
