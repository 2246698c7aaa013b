"""`kbroker user`: users and their passwords, in a running cluster or in a data directory."""
