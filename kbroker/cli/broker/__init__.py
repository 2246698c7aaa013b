"""`kbroker start`, `status` and what they need."""
