"""Single nodes of Kafka's tree, and the classes that read and write them."""
