"""`kbroker token` and its subcommands."""
