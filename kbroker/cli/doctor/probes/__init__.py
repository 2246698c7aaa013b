"""Questions to sockets and brokers, whose answers are kept as observations."""
