"""What the controllers of Apache Kafka 3.9.2 said to its brokers, under sixteen protocol versions, is
answered as those brokers answered.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kbroker.config.replication_config import ReplicationConfig
from kbroker.peers.metadata_waiter import MetadataWaiter
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.header import decode_request_header, decode_response_header
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kbroker.protocol.messages.stop_replica import StopReplicaRequest
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.protocol.schema import response_class
from kbroker.replication.controller_requests.controller_requests import ControlRequests
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.replica_manager import ReplicaManager
from tests.fakes.logs.memory_log import MemoryLogManager
from tests.fakes.running.virtual_time import VirtualTime

ORDERS = Path(__file__).with_name("orders.jsonl.gz")
REQUESTS = {
    cls.spec.key: cls for cls in (LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest)
}


@cache
def recorded() -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Orders by the protocol that was spoken and the broker that got them."""
    orders = defaultdict(list)
    with gzip.open(ORDERS, "rt") as lines:
        for line in lines:
            order = json.loads(line)
            orders[order["protocol"], order["broker"]].append(order)
    return dict(orders)


async def nothing(_asked: object) -> None:
    return None


def fresh_broker(broker_id: int) -> ControlRequests:
    time = VirtualTime()
    metadata = MetadataCache(broker_id, "cluster")
    replicas = ReplicaManager(MemoryLogManager(), metadata, time, time, ReplicationConfig())  # type: ignore[arg-type]
    waiter = MetadataWaiter()
    return ControlRequests(replicas.leadership, replicas.logs, waiter, nothing, lambda: 0, nothing)


async def replay(broker_id: int, orders: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """Our answers and theirs, where theirs was recorded."""
    ours, theirs = [], []
    broker = fresh_broker(broker_id)
    for order in orders:
        if order["starts"]:
            broker = fresh_broker(broker_id)
        frame = base64.b64decode(order["request"])
        header, offset = decode_request_header(frame)
        cls, version = REQUESTS[header.api_key], header.api_version
        answer = await broker.send(decode(cls, version, frame, offset)[0])
        if order["response"] is not None:
            body = base64.b64decode(order["response"])
            _, offset = decode_response_header(body, header.api_key, version)
            response = response_class(cls)
            ours.append(codes(decode(response, version, encode(answer, version))[0]))
            theirs.append(codes(decode(response, version, body, offset)[0]))
    return ours, theirs


def codes(response: Any) -> list[Any]:
    """The error codes of a response; partitions come in any order."""
    rows = [
        ("", e.topic_name, e.partition_index, e.error_code)
        for e in getattr(response, "partition_errors", [])
    ]
    for topic in getattr(response, "topics", []):
        rows += [
            (str(topic.topic_id), "", e.partition_index, e.error_code)
            for e in topic.partition_errors
        ]
    return [response.error_code, *sorted(rows)]


@pytest.mark.parametrize(("protocol", "broker_id"), sorted(recorded()))
def test_orders_are_answered_as_apache_kafka_answered_them(protocol: str, broker_id: int) -> None:
    ours, theirs = asyncio.run(replay(broker_id, recorded()[protocol, broker_id]))

    assert ours == theirs


def test_orders_of_every_kind_and_outcome_were_recorded() -> None:
    answers = [order["response"] for orders in recorded().values() for order in orders]

    assert len(recorded()) == 32
    assert sum(answer is not None for answer in answers) > 450
