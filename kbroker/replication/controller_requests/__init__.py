"""Orders of the controller, how a broker obeys them, and the ISRs that it asks for."""
