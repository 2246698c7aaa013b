"""The other brokers: connections to them, requests passed on to the controller, and who may give
orders.
"""
