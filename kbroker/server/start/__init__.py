"""From the options of a start to brokers that run in this process."""
