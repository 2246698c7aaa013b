"""Brokers for users' tests: `Broker`, and the fixtures of the pytest plugin."""

from kbroker.testing.broker import Broker, BrokerError

__all__ = ["Broker", "BrokerError"]
