"""Spark's Kafka connector against a running broker: without the connector there is nothing to test."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _connector(kafka_connector: str) -> None:
    """Skips with the sentence where the connector is missing."""
