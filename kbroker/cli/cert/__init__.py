"""`kbroker cert`: certificates of one's own, and what stands in any."""
