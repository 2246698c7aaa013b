"""Produce requests that make a broker open batches: 400,000 tiny records in each, as many as a
client can put into one request; and the same in the old message formats.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from benchmarks import raw_client
from benchmarks.processes import RunningBroker
from kbroker.record import legacy_builder, record_batch
from kbroker.record.compression import CODEC_IDS

RECORDS = 400_000
_TOPIC = "tiny"
_OLD_VERSION = 2  # of Produce: the last one with message format 1
_OLD_PROTOCOL = ("--override", "inter.broker.protocol.version=2.8")
# Uncompressed the batch has 4 MB.
LARGE = {"max.message.bytes": str(64 << 20)}


class Row(NamedTuple):
    """A load: what it is called, what it does, what it counts, the options of its broker."""

    name: str
    neighbour: Callable[[RunningBroker], Iterator[float]]
    unit: str
    options: tuple[str, ...] = ()


def tiny_records(step_ms: int = 0, count: int = RECORDS) -> list[record_batch.Record]:
    """Records with a key of one byte; `step_ms` lie between two of them, the last is of now."""
    first_ms = time.time_ns() // 1_000_000 - step_ms * count
    return [
        record_batch.Record(number, first_ms + number * step_ms, b"k", b"", ())
        for number in range(count)
    ]


def tiny_batch(codec: str, step_ms: int = 0, count: int = RECORDS) -> bytes:
    """All of them in one batch."""
    options = record_batch.BatchOptions(compression=CODEC_IDS[codec])
    return record_batch.build(tiny_records(step_ms, count), options=options)


def producing(
    codec: str, settings: Mapping[str, str], count: int = RECORDS
) -> Callable[[RunningBroker], Iterator[int]]:
    """The batch again and again to a topic with these settings."""

    def neighbour(broker: RunningBroker) -> Iterator[int]:
        raw_client.create_topics(broker.address, [_TOPIC], settings={**LARGE, **settings})
        client = raw_client.RawClient(broker.address)
        frame = raw_client.produce_frame(_TOPIC, tiny_batch(codec, count=count), acks=1)
        yield 0
        while True:
            client.send(frame)
            raw_client.produced(client.receive())
            yield count

    return neighbour


def producing_old(codec: str) -> Callable[[RunningBroker], Iterator[int]]:
    """Messages of format 1, wrapped in one, to a topic of format 2."""

    def neighbour(broker: RunningBroker) -> Iterator[int]:
        raw_client.create_topics(broker.address, [_TOPIC], settings=LARGE)
        client = raw_client.RawClient(broker.address)
        messages = legacy_builder.build_legacy(tiny_records(), 1, CODEC_IDS[codec])
        frame = raw_client.produce_frame(_TOPIC, messages, acks=1, version=_OLD_VERSION)
        yield 0
        while True:
            client.send(frame)
            raw_client.produced(client.receive(), _OLD_VERSION)
            yield RECORDS

    return neighbour


_FULL = ("--override", "kbroker.record.validation=full")
_LIMITS = {
    "message.timestamp.before.max.ms": "3600000",
    "message.timestamp.after.max.ms": "3600000",
}

ROWS = [
    *(
        Row(f"tiny records, {codec}, compacted", producing(codec, {"cleanup.policy": "compact"}),
            "records")
        for codec in ("none", "gzip", "snappy", "lz4", "zstd")
    ),
    Row("LogAppendTime", producing("zstd", {"message.timestamp.type": "LogAppendTime"}), "records"),
    Row("timestamp limits", producing("zstd", _LIMITS), "records"),
    Row("lz4 to compression.type=zstd", producing("lz4", {"compression.type": "zstd"}), "records"),
    Row("full validation", producing("zstd", {}), "records", _FULL),
    Row("new produce to a topic of format 1", producing("lz4", {"message.format.version": "0.10.0"}),
        "records", _OLD_PROTOCOL),
    Row("old produce to a topic of format 2", producing_old("lz4"), "records"),
]  # fmt: skip
