"""Consumer groups of the new protocol (KIP-848): the coordinator assigns, members heartbeat."""
