"""State machines of the controller. Pure."""
