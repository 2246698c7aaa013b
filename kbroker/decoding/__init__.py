"""The bytes of keys and values as a person reads them: decoders, JSON, Kafka's own topics."""
