"""Groups: their state machine, its records, and the store that keeps them."""
