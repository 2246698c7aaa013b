"""Any records come back from a batch; any bytes give records or KafkaError, never anything else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.errors import KafkaError
from kbroker.record.batch_tail import tail_fits
from kbroker.record.compression import decompress
from kbroker.record.legacy_record import any_records, is_intact, read_any_header
from kbroker.record.record_batch import (
    ATTRIBUTES_POSITION,
    HEADER_SIZE,
    BatchOptions,
    Record,
    build,
    read_header,
    records,
)
from tests.fakes.logs.walked_batch import walk_batch

LIMIT = 1 << 20
maybe_bytes = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=10), maybe_bytes), max_size=3).map(tuple)
record_lists = st.lists(
    st.tuples(st.integers(-1, 2**62), maybe_bytes, maybe_bytes, headers), min_size=1, max_size=20
).map(lambda rows: [Record(offset, *row) for offset, row in enumerate(rows)])
codecs = st.integers(0, 4)


def outcome(read: Callable[[], object]) -> None:
    """Run it; a refusal is fine, any other exception fails the test."""
    with suppress(KafkaError):
        read()


@given(record_lists, codecs, st.integers(0, 2**62))
def test_any_records_come_back(entries: list[Record], codec: int, base_offset: int) -> None:
    moved = [record._replace(offset=record.offset + base_offset) for record in entries]

    batch = build(moved, base_offset=base_offset, options=BatchOptions(compression=codec))

    assert is_intact(read_header(batch), batch)
    header = read_header(batch)
    assert list(records(batch)) == moved
    assert walk_batch(header, batch).max_timestamp == header.max_timestamp
    assert walk_batch(header, batch).keyless == sum(r.key is None for r in entries)


@given(st.binary(max_size=300))
def test_any_bytes_give_records_or_a_refusal(data: bytes) -> None:
    outcome(lambda: read_header(data))
    outcome(lambda: list(records(data)))
    outcome(lambda: is_intact(read_any_header(data), data))
    outcome(lambda: list(any_records(data)))


@given(st.integers(1, 7), st.binary(max_size=300))
def test_any_payload_gives_bytes_or_a_refusal(codec: int, data: bytes) -> None:
    outcome(lambda: decompress(codec, data, LIMIT))


@pytest.mark.parametrize("count", [0, -1])
def test_a_batch_that_counts_no_record_does_not_end_with_one(count: int) -> None:
    batch = bytearray(build([Record(0, 0, None, b"v")]))
    batch[57:61] = count.to_bytes(4, "big", signed=True)

    assert not tail_fits(read_header(batch), batch)


@given(record_lists, codecs, st.data())
def test_a_batch_with_changed_bytes_gives_records_or_a_refusal(
    entries: list[Record], codec: int, data: st.DataObject
) -> None:
    batch = bytearray(build(entries, options=BatchOptions(compression=codec)))
    positions = st.integers(HEADER_SIZE, len(batch) - 1) | st.integers(ATTRIBUTES_POSITION, 60)
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(positions)] = data.draw(st.integers(0, 255))
    header = read_header(batch)

    outcome(lambda: walk_batch(header, batch, LIMIT))
    outcome(lambda: tail_fits(header, batch))
    outcome(lambda: [0 for _ in zip(range(1000), records(batch), strict=False)])


@given(st.integers(0, 1), st.integers(0, 15), maybe_bytes, maybe_bytes, st.binary(max_size=3))
def test_old_messages_give_records_or_a_refusal(
    magic: int, attributes: int, key: bytes | None, value: bytes | None, junk: bytes
) -> None:
    def field(content: bytes | None) -> bytes:
        if content is None:
            return b"\xff\xff\xff\xff"
        return len(content).to_bytes(4, "big") + content

    body = (
        bytes(4) + bytes((magic, attributes)) + bytes(8 * magic) + field(key) + field(value) + junk
    )
    message = bytes(8) + len(body).to_bytes(4, "big") + body

    outcome(lambda: list(any_records(message)))
