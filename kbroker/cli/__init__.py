"""The command line of kbroker."""
