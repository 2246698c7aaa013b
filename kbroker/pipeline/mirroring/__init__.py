"""Topics of one cluster kept as copies in another."""
