"""Pure state machines of the controller."""
