"""Requests and duties that go over many files or many partitions: retention, deletion, metadata."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import raw_client, settings
from benchmarks.neighbour_batches import Row
from benchmarks.processes import RunningBroker
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kbroker.protocol.messages.metadata import MetadataRequest

_SEGMENTS = 500
_PARTITIONS = 500
_ROUNDS = 3
_METADATA_TOPICS = 50
_METADATA_PARTITIONS = 100  # of each topic
_LOOK_S = 0.02
_SOON = (
    "--override", "log.initial.task.delay.ms=0",
    "--override", "log.retention.check.interval.ms=200",
    "--override", "log.segment.delete.delay.ms=500",
)  # fmt: skip


def retention(broker: RunningBroker) -> Iterator[int]:
    """Three logs of 500 segments, one after the other: all but the last segment become too old."""
    names = [f"old-{number}" for number in range(_ROUNDS)]
    batch = raw_client.batch_of(1_000)
    client = raw_client.RawClient(broker.address)
    raw_client.create_topics(broker.address, names, settings={"segment.bytes": "1100"})
    for name in names:
        frame = raw_client.produce_frame(name, batch, acks=1)
        for _ in range(_SEGMENTS + 1):
            client.send(frame)
            raw_client.produced(client.receive())
    yield 0
    for name in names:
        directory = _data(broker) / f"{name}-0"
        settings.change(broker, settings.TOPIC, name, {"retention.bytes": "1"})
        while len(list(directory.glob("*.log*"))) > 1:  # *.log.deleted too
            time.sleep(_LOOK_S)
        yield _SEGMENTS


def deletion(topics: int, partitions: int, broker: RunningBroker) -> Iterator[int]:
    """Three times so many topics with so many partitions and a batch in each, until their
    directories are gone.
    """
    sets = [[f"gone-{number}-{n}" for n in range(topics)] for number in range(_ROUNDS)]
    batch = raw_client.batch_of(1_000)
    client = raw_client.RawClient(broker.address)
    for names in sets:
        raw_client.create_topics(broker.address, names, partitions)
        for name in names:
            for partition in range(partitions):
                client.send(raw_client.produce_frame(name, batch, 1, partition))
                raw_client.produced(client.receive())
    yield 0
    for names in sets:
        request = DeleteTopicsRequest(topic_names=names, timeout_ms=60_000)
        answer = client.call(request, 20, 4, DeleteTopicsResponse)
        if any(response.error_code for response in answer.responses):
            raise RuntimeError("a deletion was refused")
        prefix = names[0].rpartition("-")[0]
        while any(_data(broker).glob(f"{prefix}-*")):
            time.sleep(_LOOK_S)
        yield topics * partitions


def one_topic(broker: RunningBroker) -> Iterator[int]:
    """A topic with 500 partitions is deleted."""
    return deletion(1, _PARTITIONS, broker)


def many_topics(broker: RunningBroker) -> Iterator[int]:
    """500 topics are deleted by one request."""
    return deletion(_PARTITIONS, 1, broker)


def metadata(broker: RunningBroker) -> Iterator[int]:
    """Metadata of all topics, 5,000 partitions, without a pause."""
    names = [f"wide-{number}" for number in range(_METADATA_TOPICS)]
    raw_client.create_topics(broker.address, names, _METADATA_PARTITIONS)
    client = raw_client.RawClient(broker.address)
    frame = raw_client.frame_of(MetadataRequest(topics=None), 3, 9)
    yield 0
    while True:
        client.send(frame)
        client.receive()
        yield _METADATA_TOPICS * _METADATA_PARTITIONS


def _data(broker: RunningBroker) -> Path:
    assert broker.data is not None
    return broker.data


ROWS = [
    Row("retention of 500 segments", retention, "segments", _SOON),
    Row("deletion of 1 topic, 500 partitions", one_topic, "partitions", _SOON),
    Row("deletion of 500 topics", many_topics, "partitions", _SOON),
    Row("metadata of 5,000 partitions", metadata, "partitions"),
]
