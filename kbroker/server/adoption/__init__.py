"""Taking over data of Apache Kafka: what is found, what is planned, what is said."""
