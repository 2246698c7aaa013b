"""`kbroker cluster`: copies, reassignments, elections, drained brokers, features."""
