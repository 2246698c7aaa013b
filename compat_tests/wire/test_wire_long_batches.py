"""Batches that take long to open: what others of the connection and of the broker see of them, and
that the bytes stay what was sent.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from compat_tests.wire.record_bytes import GZIP, ZSTD, Batch, Pair, batch, compressed_batch
from compat_tests.wire.wire_client import PRODUCE, WireClient, produce_fields, stored_at

COUNT = 3_000  # more than are opened at once


@pytest.fixture
def compacted(wire: WireClient) -> str:
    """A topic whose batches are opened."""
    return wire.create_topic(configs={"cleanup.policy": "compact"})


def pairs(mark: bytes) -> tuple[Pair, ...]:
    return tuple((b"%d" % n, mark * 4) for n in range(COUNT))


def plain(mark: bytes) -> bytes:
    return Batch(pairs=pairs(mark)).to_bytes()


def test_requests_of_a_connection_keep_their_order(wire: WireClient, compacted: str) -> None:
    for mark in (b"a", b"b"):
        wire.send(PRODUCE, 7, **produce_fields(compacted, [(0, plain(mark))], acks=0))
    wire.send(PRODUCE, 7, **produce_fields(compacted, [(0, batch())], acks=0))

    assert wire.produce(compacted, batch()) == stored_at(2 * COUNT + 1)

    stored = bytes(wire.fetch(compacted, 0, partition_max_bytes=1 << 20, max_bytes=1 << 20).records)
    assert stored.index(b"aaaa") < stored.index(b"bbbb")


@pytest.mark.parametrize("acks", [0, 1])
def test_a_connection_that_is_gone_leaves_its_batch_as_it_was_sent(
    wire: WireClient, connect: Callable[[], WireClient], compacted: str, acks: int
) -> None:
    gone = connect()
    gone.send(PRODUCE, 7, **produce_fields(compacted, [(0, plain(b"a"))], acks=acks))
    gone.close()
    others = [connect() for _ in range(8)]
    elsewhere = wire.create_topic()
    for mark, other in zip(b"cdefghij", others, strict=True):
        assert other.produce(elsewhere, plain(bytes([mark]))).startswith("0; ")

    # The first may not have been heard at all; what is stored is one or the other, and whole.
    base = wire.produce(compacted, plain(b"z"))

    assert base in (stored_at(0), stored_at(COUNT))
    stored = bytes(wire.fetch(compacted, 0, partition_max_bytes=1 << 20, max_bytes=1 << 20).records)
    for mark in (b"a", b"z") if base == stored_at(COUNT) else (b"z",):
        (size,) = struct.unpack_from(">i", stored, 8)
        assert stored[21 : 12 + size] == plain_body(stored[: 12 + size], mark)
        stored = stored[12 + size :]


def plain_body(like: bytes, mark: bytes) -> bytes:
    """Return what follows the CRC in the batch of that mark, with the times of a stored one."""
    (timestamp_ms,) = struct.unpack_from(">q", like, 27)
    return Batch(pairs=pairs(mark), timestamp_ms=timestamp_ms).to_bytes()[21:]


@pytest.mark.parametrize("codec", [GZIP, ZSTD])
def test_a_look_up_by_time_in_a_compressed_batch_finds_its_record(
    wire: WireClient, codec: int
) -> None:
    topic = wire.create_topic()
    assert wire.produce(topic, compressed_batch(codec, pairs(b"a"))) == stored_at(0)
    assert wire.produce(topic, compressed_batch(codec, pairs(b"b"))) == stored_at(COUNT)

    assert wire.list_offsets(topic, 0).startswith("0 offset=0 ")
    assert wire.list_offsets(topic, -3).startswith(("0 offset=0 ", f"0 offset={COUNT} "))
    assert wire.list_offsets(topic, 2**62).startswith("0 offset=-1 ")


@pytest.mark.parametrize("setting", ["LogAppendTime", "codec"])
def test_settings_that_open_batches_hold_for_long_ones(wire: WireClient, setting: str) -> None:
    configs = {
        "LogAppendTime": {"message.timestamp.type": "LogAppendTime", "compression.type": "lz4"},
        "codec": {"compression.type": "zstd"},
    }[setting]
    topic = wire.create_topic(configs=configs)

    answer = wire.produce(topic, compressed_batch(GZIP, pairs(b"a")))

    assert answer.startswith("0; base_offset=0; ")
    assert ("log_append_time=-1" in answer) == (setting == "codec")
    stored = bytes(wire.fetch(topic, 0).records)
    assert stored[22] & 7 == {"LogAppendTime": 3, "codec": 4}[setting]
