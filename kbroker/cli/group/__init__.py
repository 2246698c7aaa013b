"""`kbroker group`: consumer groups and their offsets."""
