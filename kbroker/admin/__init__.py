"""What any broker does for clients that change metadata: topics, settings, producer ids."""
