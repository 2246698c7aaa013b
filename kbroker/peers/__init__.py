"""What brokers are to each other: connections, requests passed on to the controller, who may give
orders.
"""
