"""Pure state machine of a group."""
