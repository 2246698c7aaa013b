"""One handler file per API."""
