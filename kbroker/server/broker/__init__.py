"""One broker, in three stages: its storage is open, its parts are made, it runs."""
