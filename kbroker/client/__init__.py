"""How the command line and the data pipeline reach a broker, as clients of any Kafka."""
