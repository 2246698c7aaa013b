"""What every comparison of speed begins with: each broker has answered so many requests that Java's
compiler has done its work.

Apache Kafka, just started, takes four times the CPU for a request that it takes after 100,000. The
same requests go to kbroker, so that both have the same past. Starts, and what idle brokers take, are
measured without it.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks import raw_client
from benchmarks.cluster import RunningCluster, create, led_among, wait_for
from benchmarks.generator import Traffic, send
from benchmarks.pipeline import TwoBrokers
from benchmarks.processes import RunningBroker

REQUESTS = 100_000  # of Produce, and as many of Fetch
_IN_FLIGHT = 5
_BATCH_BYTES = (1_024, 16_384)
_RECORD_BYTES = 100
_TOPIC = "warm-up"
_COMPILED_S = 5.0  # until the compiler has ended what the last requests began


def warm(target: RunningBroker | RunningCluster | TwoBrokers) -> None:
    """Send REQUESTS of Produce and of Fetch to every broker of `target`."""
    if isinstance(target, TwoBrokers):
        warm(target.source)
        warm(target.target)
    elif isinstance(target, RunningCluster):
        _warm_cluster(target)
    else:
        raw_client.create_topic(target.address, _TOPIC)
        _send(target.address, partition=0)


def _warm_cluster(cluster: RunningCluster) -> None:
    ids = cluster.brokers.ids
    create(cluster, cluster.brokers.controller_id(), {_TOPIC: len(ids)})
    for number in ids:
        wait_for(cluster, number, lambda told: led_among(told, {_TOPIC}) == len(ids))
    for partition in range(len(ids)):
        state: Any = cluster.brokers.tree.partition_state(_TOPIC, partition)
        _send(cluster.address(state.leader), partition)


def _send(leader: tuple[str, int], partition: int) -> None:
    client = raw_client.RawClient(leader)
    small = raw_client.batch_of(_BATCH_BYTES[0], _RECORD_BYTES)
    raw_client.produce_first(client, raw_client.produce_frame(_TOPIC, small, -1, partition))
    client.close()
    fetch = raw_client.fetch_frame(_TOPIC, 0, 500, len(small), partition=partition)
    send(leader, Traffic(frames=[fetch], in_flight=_IN_FLIGHT), REQUESTS)
    for batch_bytes in _BATCH_BYTES:
        batch = raw_client.batch_of(batch_bytes, _RECORD_BYTES)
        for acks in (-1, 1):
            frame = raw_client.produce_frame(_TOPIC, batch, acks, partition)
            send(leader, Traffic(frames=[frame], in_flight=_IN_FLIGHT), REQUESTS // 4)
    time.sleep(_COMPILED_S)
