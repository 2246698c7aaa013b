"""Changes of metadata that any broker makes for clients: topics, settings, producer ids."""
