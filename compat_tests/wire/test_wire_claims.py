"""What a batch claims of its records, held against them, by a broker with its default settings."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from compat_tests.wire.record_bytes import ONE, Batch, batch, plain_records, unsigned_varint, varint
from compat_tests.wire.wire_client import REFUSED_BY_LOG, WireClient, stored_at

Either = Callable[[str, str], str]

REFUSAL = f"87 INVALID_RECORD; {REFUSED_BY_LOG}"
GOOD_RECORD = plain_records(ONE)
MOST = 2**31 - 1
MOST_TIME = 2**63 - 1


def claiming(count: int, **fields: object) -> bytes:
    """A batch that says it has so many records."""
    return Batch(record_count=count, last_offset_delta=count - 1, **fields).to_bytes()  # type: ignore[arg-type]


@pytest.fixture
def made(wire: WireClient) -> str:
    """A topic of one partition."""
    return wire.create_topic()


def test_a_count_of_two_billion_in_a_few_bytes_moves_no_offset(wire: WireClient, made: str) -> None:
    lying = claiming(MOST, payload=b"\x22" + b"\0" * 17)
    assert len(lying) == 79

    assert wire.produce(made, lying) == REFUSAL
    assert wire.produce(made, batch()) == stored_at(0)


@pytest.mark.parametrize("codec", [1, 2, 3, 4], ids=["gzip", "snappy", "lz4", "zstd"])
def test_a_compressed_count_of_two_billion_moves_no_offset(
    wire: WireClient, made: str, either: Either, codec: int
) -> None:
    lying = claiming(MOST, payload=b"\x55" * 18, attributes=codec)

    answer = wire.produce(made, lying)

    assert answer.startswith(either("87 INVALID_RECORD", "-1 UNKNOWN_SERVER_ERROR"))
    assert wire.produce(made, batch()) == stored_at(0)


@pytest.mark.parametrize("count", [2, 3, 1_000])
def test_more_records_announced_than_sent_are_refused(
    wire: WireClient, made: str, count: int
) -> None:
    assert wire.produce(made, claiming(count)) == REFUSAL


def test_fewer_records_announced_than_sent_are_refused(wire: WireClient, made: str) -> None:
    assert wire.produce(made, claiming(1, pairs=ONE * 3)) == REFUSAL


@pytest.mark.parametrize(
    "payload",
    [
        b"\x7e" + GOOD_RECORD[1:],
        b"\x06" + GOOD_RECORD[1:],
        GOOD_RECORD[:-1] + b"\x7e",
        GOOD_RECORD[:4] + b"\x7e" + GOOD_RECORD[5:],
        GOOD_RECORD + b"\0",
        b"",
    ],
    ids=[
        "length beyond the batch", "length too short", "headers beyond the record",
        "key beyond the record", "bytes after the records", "no record at all",
    ],
)  # fmt: skip
def test_a_record_that_cannot_be_read_is_refused(
    wire: WireClient, made: str, payload: bytes
) -> None:
    assert wire.produce(made, Batch(payload=payload).to_bytes(), 8).startswith("87 INVALID_RECORD")


def test_offsets_with_a_hole_are_stored_without_it(
    wire: WireClient, made: str, either: Callable[[int, int], int]
) -> None:
    second = GOOD_RECORD[:3] + varint(2) + GOOD_RECORD[4:]
    holed = Batch(pairs=ONE * 2, payload=GOOD_RECORD + second).to_bytes()

    assert wire.produce(made, holed).startswith("0; base_offset=0")

    # Kafka stores the hole, and the next batch begins with the offset that this one ends with.
    offset_delta = wire.fetch(made, 0).records[3 - len(GOOD_RECORD)]
    assert offset_delta == 2 * either(1, 2)  # zigzag
    assert wire.produce(made, batch()).startswith("0; base_offset=2")


@pytest.mark.parametrize(
    "configs",
    [{}, {"cleanup.policy": "compact"}, {"compression.type": "zstd"}],
    ids=["plain", "compacted", "recompressed"],
)
@pytest.mark.parametrize("field", range(7))
@pytest.mark.parametrize("count", [1, 2, 130])
def test_varints_may_be_longer_than_they_need_to_be(
    wire: WireClient, configs: dict[str, str], field: int, count: int
) -> None:
    made = wire.create_topic(configs=configs)
    records = b"".join(_with_long_varint(index, field) for index in range(count))

    assert wire.produce(made, Batch(pairs=ONE * count, payload=records).to_bytes()) == stored_at(0)
    assert wire.list_offsets(made, -1).startswith(f"0 offset={count} ")


def _with_long_varint(index: int, field: int) -> bytes:
    """A record whose length, time, offset, length of key, of value, count of headers, or all of
    them, are written in a byte more than they need.
    """
    numbers = [
        _longer(varint(value)) if field in (at, 6) else varint(value)
        for at, value in enumerate((0, index, 1, 1, 0), start=1)
    ]
    time_delta, offset, key_bytes, value_bytes, headers = numbers
    body = b"\0" + time_delta + offset + key_bytes + b"k" + value_bytes + b"v" + headers
    length = varint(len(body))
    return (_longer(length) if field in (0, 6) else length) + body


def _longer(number: bytes) -> bytes:
    return number[:-1] + bytes([number[-1] | 0x80, 0])


@pytest.mark.parametrize(
    ("base", "delta"),
    [(MOST_TIME, 1), (-MOST_TIME - 1, -1)],
    ids=["beyond the last", "before the first"],
)
@pytest.mark.parametrize("maximum", [0, 5, MOST_TIME])
def test_times_of_more_than_64_bits_are_refused(
    wire: WireClient, made: str, base: int, delta: int, maximum: int
) -> None:
    body = (
        b"\0" + unsigned_varint(delta << 1 if delta >= 0 else (-delta << 1) - 1) + GOOD_RECORD[3:]
    )
    lying = Batch(
        payload=varint(len(body)) + body, timestamp_ms=base, max_timestamp_ms=maximum
    ).to_bytes()

    assert wire.produce(made, lying).startswith("32 INVALID_TIMESTAMP")


@pytest.mark.parametrize("lie_ms", [-5_000, 5_000, 10**12])
def test_a_false_largest_time_is_corrected(wire: WireClient, made: str, lie_ms: int) -> None:
    now_ms = int(time.time() * 1000)
    lying = Batch(pairs=ONE * 3, timestamp_ms=now_ms, max_timestamp_ms=now_ms + lie_ms)

    assert wire.produce(made, lying.to_bytes()) == stored_at(0)

    assert wire.list_offsets(made, -3).startswith(f"0 offset=0 ts={now_ms} ")
    assert wire.list_offsets(made, now_ms + 1).startswith("0 offset=-1 ")
