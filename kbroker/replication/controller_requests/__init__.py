"""What the controller orders a broker, and how the broker obeys."""
