"""The way of the controller's orders to the brokers, and the events that come of their answers."""
