"""What the controller orders a broker, how the broker obeys, and what a leader asks for."""
