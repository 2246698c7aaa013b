"""`kbroker acl`: who may do what, in a cluster whose brokers have an authorizer."""
