"""The node with which older tools of Apache Kafka ask for elections of preferred leaders."""

from __future__ import annotations

import json
from collections.abc import Iterable

from kbroker.model import TopicPartition


def preferred_election(partitions: Iterable[TopicPartition]) -> bytes:
    """Data of /admin/preferred_replica_election."""
    named = [{"topic": one.topic, "partition": one.partition} for one in partitions]
    return json.dumps({"version": 1, "partitions": named}, separators=(",", ":")).encode()
