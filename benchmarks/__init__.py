"""Loads that measure a broker from outside; each also runs against Apache Kafka in the same run."""
