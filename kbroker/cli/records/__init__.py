"""`kbroker produce` and `consume`: records from lines, and lines from records."""
