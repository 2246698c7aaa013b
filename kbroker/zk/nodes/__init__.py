"""Single nodes of Kafka's tree and those who read and write them."""
