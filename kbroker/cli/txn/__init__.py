"""`kbroker txn`: transactions seen, aborted, and found hanging."""
