"""`kbroker topic`: topics made, changed, copied and trimmed."""
