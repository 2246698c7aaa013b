"""The controller: topics, leaders, brokers."""
