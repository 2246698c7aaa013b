"""Where a broker's metadata is, whose it is, and how it moves."""
