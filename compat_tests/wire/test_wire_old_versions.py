"""Produce 0 to 2 and Fetch 0 to 3, with the message formats of Kafka 0.8 to 0.10. Apache Kafka 4 does
not serve them any more; the expectations are the answers of 3.9.2 with its defaults.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable

import cramjam
import pytest

from compat_tests.wire.old_versions import (
    GZIP,
    LOG_APPEND_TIME,
    ZSTD,
    Message,
    fetch,
    formats,
    message_set,
    produce,
    wrapped,
)
from compat_tests.wire.record_bytes import Batch, batch, compressed_batch, first_batch
from compat_tests.wire.wire_client import WireClient, code, stored_at

pytestmark = pytest.mark.usefixtures("served")

HOUR_AGO_MS = int(time.time() * 1000) - 3_600_000
A, B, C = (Message(value=b"%d" % index, timestamp_ms=HOUR_AGO_MS) for index in range(3))
A0, B0 = Message(magic=0, value=b"0"), Message(magic=0, value=b"1", offset=1)


@pytest.fixture
def served(is_kafka: bool) -> None:
    if is_kafka:
        pytest.skip("Apache Kafka 4 closes the connection")


def written(wire: WireClient, version: int, data: bytes | None, **configs: str) -> tuple[int, int]:
    """(error code, base offset) in a fresh topic."""
    topic = wire.create_topic(configs={key.replace("_", "."): v for key, v in configs.items()})
    answer = produce(wire, version, topic, data)
    return answer.error_code, answer.base_offset


@pytest.mark.row(28)
def test_an_old_produce_may_bring_a_new_batch(wire: WireClient) -> None:
    assert written(wire, 2, batch(3)) == (0, 0)
    assert written(wire, 2, compressed_batch(ZSTD)) == (0, 0)


@pytest.mark.row(29, 30, 31)
@pytest.mark.parametrize(
    ("version", "message"), [(0, A0), (1, A0), (2, A0), (0, A), (1, A), (2, A)]
)
def test_old_messages_are_stored_in_the_new_format(
    wire: WireClient, version: int, message: Message
) -> None:
    topic = wire.create_topic()

    answers = [produce(wire, version, topic, message_set(message, message)) for _ in range(2)]

    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 0), (0, 2)]
    assert {answer.log_append_time for answer in answers} == {-1 if version == 2 else None}
    stored = first_batch(wire.fetch(topic, 0).records)
    assert (stored["magic"], stored["last_offset_delta"]) == (2, 1)
    assert stored["base_timestamp"] == (message.timestamp_ms if message.magic else -1)


@pytest.mark.row(241)
def test_the_lowest_version_is_answered(wire: WireClient) -> None:
    assert written(wire, 0, A0.to_bytes()) == (0, 0)


def test_compressed_messages_stay_compressed(wire: WireClient) -> None:
    topic = wire.create_topic()
    absolute = wrapped(A0, B0)

    assert produce(wire, 2, topic, wrapped(A, B, C)).base_offset == 0
    assert produce(wire, 1, topic, absolute).base_offset == 3

    assert formats(wire.fetch(topic, 0).records) == [(2, 0, GZIP), (2, 3, GZIP)]


@pytest.mark.parametrize("offset", [0, 77])
def test_the_offset_of_a_wrapper_may_be_anything_that_fits(wire: WireClient, offset: int) -> None:
    assert written(wire, 2, wrapped(A, B, C, offset=offset)) == (0, 0)


@pytest.mark.parametrize(
    "tail", [b"\0" * 5, B.to_bytes()[:-3], B.to_bytes()[:16]], ids=["zeros", "end", "header"]
)
def test_what_is_cut_off_is_left_out(wire: WireClient, tail: bytes) -> None:
    topic = wire.create_topic()

    assert produce(wire, 2, topic, A.to_bytes() + tail).error_code == 0

    assert wire.list_offsets(topic, -1).startswith("0 offset=1 ")


@pytest.mark.parametrize(
    "data", [b"", A.to_bytes()[:-3], batch(2)[:-3]], ids=["nothing", "message", "batch"]
)
def test_nothing_whole_is_stored_without_an_error(wire: WireClient, data: bytes) -> None:
    assert written(wire, 2, data) == (0, -1)


INVALID = {
    "two formats": message_set(A0, A),
    "two wrappers": wrapped(A, B) * 2,
    "plain and wrapper": message_set(A) + wrapped(A, B),
    "two batches": batch(2) * 2,
    "a message and a batch": A.to_bytes() + batch(2),
    "zstd": wrapped(A, attributes=ZSTD, value=bytes(cramjam.zstd.compress(A.to_bytes()))),
    "wrapper in wrapper": wrapped(A, Message(attributes=GZIP)),
    "wrapper of null": wrapped(A, value=None),
    "wrapper of nothing": wrapped(A, value=gzip.compress(b"")),
    "wrapper below its last": wrapped(A, B, C, offset=1),
    "wrapped format": wrapped(A, value=gzip.compress(A0.to_bytes())),
    "control batch": Batch(attributes=0x20).to_bytes(),
    "base offset": Batch(base_offset=5).to_bytes(),
}
CORRUPT = {
    "checksum": message_set(A, Message(crc_mask=1)),
    "wrapped checksum": wrapped(A, Message(crc_mask=1)),
    "format 3": Message(magic=3).to_bytes(),
    "zeros": A.to_bytes() + b"\0" * 16,
    "garbage": b"\xff" * 40,
}


@pytest.mark.parametrize("data", INVALID.values(), ids=INVALID)
def test_invalid_sets(wire: WireClient, data: bytes) -> None:
    assert written(wire, 2, data) == (87, -1)


@pytest.mark.parametrize("data", CORRUPT.values(), ids=CORRUPT)
def test_corrupt_sets(wire: WireClient, data: bytes) -> None:
    assert written(wire, 2, data) == (2, -1)


def test_the_brokers_time(wire: WireClient) -> None:
    topic = wire.create_topic(configs={"message.timestamp.type": "LogAppendTime"})

    stamp = produce(wire, 2, topic, message_set(A, B)).log_append_time

    stored = first_batch(wire.fetch(topic, 0).records)
    assert (stored["attributes"], stored["max_timestamp"]) == (LOG_APPEND_TIME, stamp)
    pretended = Message(attributes=LOG_APPEND_TIME)
    assert produce(wire, 2, topic, message_set(pretended)).error_code == 32


def test_settings_of_the_topic_count(wire: WireClient) -> None:
    hour_ago = Message(timestamp_ms=HOUR_AGO_MS)
    keyless = Message(key=None)
    bounds = {"message_timestamp_before_max_ms": "10000"}

    assert written(wire, 2, message_set(hour_ago), **bounds) == (32, -1)
    assert written(wire, 1, message_set(A0), **bounds) == (0, 0)
    assert written(wire, 2, message_set(A, keyless), cleanup_policy="compact") == (87, -1)
    assert written(wire, 2, message_set(A, B), compression_type="lz4") == (0, 0)
    assert written(wire, 2, message_set(A, B, C), max_message_bytes="80") == (10, -1)


@pytest.fixture
def three_batches(wire: WireClient) -> str:
    """A topic with three equal batches of five records."""
    topic = wire.create_topic()
    five = batch(5, value_bytes=20, timestamp_ms=HOUR_AGO_MS)
    assert [wire.produce(topic, five) for _ in range(3)] == [stored_at(n) for n in (0, 5, 10)]
    return topic


@pytest.mark.row(115, 116)
@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_new_batches_come_in_the_format_of_the_version(
    wire: WireClient, three_batches: str, version: int, magic: int
) -> None:
    (first,) = fetch(wire, version, three_batches, 0)
    (within,) = fetch(wire, version, three_batches, 7)

    assert (first.error_code, first.high_watermark) == (0, 15)
    assert formats(first.records)[:9] == [(magic, offset, 0) for offset in range(9)]
    assert formats(within.records)[:3] == [(magic, offset, 0) for offset in (7, 8, 9)]


@pytest.mark.row(106)
def test_before_version_3_a_batch_beyond_the_limit_does_not_come(
    wire: WireClient, three_batches: str
) -> None:
    limits = {"partition_max_bytes": 10}

    assert fetch(wire, 2, three_batches, 0, **limits)[0].records == b""
    assert len(formats(fetch(wire, 3, three_batches, 0, **limits)[0].records)) == 5


def test_version_3_limits_the_whole_answer(wire: WireClient) -> None:
    topic = wire.create_topic(partitions=2)
    for partition in (0, 1):
        wire.produce(topic, batch(5), partition=partition)

    both = fetch(wire, 3, topic, 0, 0)
    limited = fetch(wire, 3, topic, 0, 0, max_bytes=1)

    assert [len(formats(read.records)) for read in both] == [5, 5]
    assert [len(formats(read.records)) for read in limited] == [5, 0]


@pytest.mark.parametrize(("version", "magic"), [(1, 0), (3, 1)])
def test_compressed_batches_come_as_wrappers(wire: WireClient, version: int, magic: int) -> None:
    topic = wire.create_topic()
    wire.produce(topic, compressed_batch(GZIP, ((b"k", b"v"),) * 3))

    (read,) = fetch(wire, version, topic, 1)

    assert formats(read.records) == [(magic, 2, GZIP)]


@pytest.mark.parametrize("version", [1, 3])
def test_zstd_does_not_come(wire: WireClient, version: int) -> None:
    topic = wire.create_topic()
    wire.produce(topic, batch(2))
    wire.produce(topic, compressed_batch(ZSTD))

    before, at = (fetch(wire, version, topic, offset)[0] for offset in (0, 2))

    assert (before.error_code, at.error_code, at.high_watermark) == (0, 76, -1)


@pytest.mark.parametrize(("version", "expected"), [(4, 76), (9, 76), (10, 0)])
def test_a_topic_of_zstd_is_closed_to_versions_before_it(
    wire: WireClient, version: int, expected: int
) -> None:
    topic = wire.create_topic(configs={"compression.type": "zstd"})
    wire.produce(topic, batch(2))

    assert wire.fetch(topic, 0, version=version).error_code.value == expected
    assert fetch(wire, 3, topic, 0)[0].error_code == 76


@pytest.mark.parametrize("offset", [0, 2])
def test_a_topic_may_refuse_conversion(wire: WireClient, offset: int) -> None:
    topic = wire.create_topic(configs={"message.downconversion.enable": "false"})
    wire.produce(topic, batch(2))

    assert fetch(wire, 3, topic, offset)[0].error_code == 35
    assert code(wire.fetch(topic, offset, version=4).error_code) == "0"


def test_the_brokers_time_comes_with_its_bit(wire: WireClient) -> None:
    topic = wire.create_topic(configs={"message.timestamp.type": "LogAppendTime"})
    wire.produce(topic, batch(2))

    assert formats(fetch(wire, 3, topic, 0)[0].records) == [
        (1, 0, LOG_APPEND_TIME),
        (1, 1, LOG_APPEND_TIME),
    ]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_offsets_outside_of_the_log(wire: WireClient, three_batches: str, version: int) -> None:
    (read,) = fetch(wire, version, three_batches, 99)

    assert (read.error_code, read.high_watermark, read.records) == (1, -1, b"")


@pytest.mark.parametrize("version", [0, 3])
def test_a_fetch_waits_for_what_another_client_writes(
    wire: WireClient, connect: Callable[[], WireClient], version: int
) -> None:
    topic = wire.create_topic()
    before = time.monotonic()

    assert fetch(wire, version, topic, 0, max_wait_ms=200)[0].records == b""

    assert 0.19 <= time.monotonic() - before < 3
    connect().produce(topic, batch(2))
    assert len(formats(fetch(wire, version, topic, 0, max_wait_ms=5_000)[0].records)) == 2
    assert time.monotonic() - before < 4
