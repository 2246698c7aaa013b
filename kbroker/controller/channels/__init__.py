"""How the controller's orders get to the brokers, and what their answers mean."""
