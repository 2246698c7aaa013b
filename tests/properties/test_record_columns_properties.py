"""Any log becomes the rows that its records say one by one; any damage is told or changes nothing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.pipeline.logdir.decode.damage import DamagedBatchError
from kbroker.pipeline.logdir.decode.header_columns import header_batches
from kbroker.pipeline.logdir.decode.record_columns import record_batches
from kbroker.pipeline.logdir.segment_task import AbortedTransaction, ReadOptions, SegmentTask
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.record_batch import (
    LOG_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    Record,
    build,
    build_marker,
)
from tests.unit.pipeline.logdir.segment_rows import (
    ALL_COLUMNS,
    TASK,
    expected,
    headers,
    read,
    rows,
    stored,
)

NOW_MS = 1_790_000_000_000
LEADER_EPOCH_END = 16

maybe_bytes = st.none() | st.binary(max_size=12) | st.integers(50, 300).map(bytes)
texts = st.text(max_size=5) | st.binary(max_size=4).map(
    lambda data: data.decode("utf-8", "surrogateescape")
)
record_headers = st.lists(st.tuples(texts, maybe_bytes), max_size=3).map(tuple)
times = st.integers(-200, 20_000) | st.integers(-(2**45), 2**45)
entries = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 1, 2, 70, 9000]), times, maybe_bytes, maybe_bytes, record_headers
    ),
    max_size=12,
)
counts = st.integers(1, 150)
flags = st.sampled_from([0, 0, 0, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT])
columns = st.lists(st.sampled_from(ALL_COLUMNS), min_size=1, max_size=5, unique=True).map(tuple)


@st.composite
def batches(draw: st.DrawFn, start: int) -> tuple[bytes, int]:
    """A batch, and the offset after it."""
    kind = draw(st.sampled_from(["mixed", "mixed", "like", "like", "old", "marker"]))
    if kind == "marker":
        options = BatchOptions(producer_id=draw(st.integers(1, 2)), producer_epoch=0)
        control = ControlRecord(draw(st.booleans()), 0)
        return build_marker(control, NOW_MS, base_offset=start, options=options), start + 1
    if kind == "like":
        size = draw(st.integers(0, 200))
        made = [
            Record(start + i, NOW_MS + i, b"key-%d" % (i % 10), bytes(size))
            for i in range(draw(counts))
        ]
    else:
        made = placed(draw(entries), start)
    if kind == "old" and made:
        magic = draw(st.integers(0, 1))
        plain = [
            record._replace(headers=(), timestamp=max(-1, record.timestamp)) for record in made
        ]
        if magic == 0:
            plain = [record._replace(timestamp=-1) for record in plain]
        return build_legacy(plain, magic, draw(st.integers(0, 3))), plain[-1].offset + 1
    producer_id = draw(st.integers(-1, 2))
    last_offset = (made[-1].offset if made else start) + draw(st.sampled_from([0, 0, 5]))
    options = BatchOptions(
        flags=draw(flags),
        compression=draw(st.integers(0, 4)) if made else 0,
        partition_leader_epoch=draw(st.integers(-1, 3)),
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=draw(st.sampled_from([0, 2**31 - 3])) if producer_id >= 0 else -1,
        last_offset=last_offset,
    )
    return build(made, base_offset=start, options=options), last_offset + 1


def placed(given_rows: list[tuple[int, int, Any, Any, Any]], start: int) -> list[Record]:
    offset, made = start - 1, []
    for step, time, key, value, pairs in given_rows:
        offset += step
        made.append(Record(offset, NOW_MS + time, key, value, pairs))
    return made


@st.composite
def logs(draw: st.DrawFn) -> tuple[bytes, int]:
    """The bytes of a segment, and the offset after its last batch."""
    data, offset = b"", draw(st.sampled_from([0, 1000]))
    for _ in range(draw(st.integers(1, 5))):
        batch, offset = draw(batches(offset))
        data += batch
    return data, offset


@st.composite
def tasks(draw: st.DrawFn, end: int) -> SegmentTask:
    aborted = draw(
        st.lists(st.tuples(st.integers(1, 2), st.integers(0, end), st.integers(0, end)), max_size=2)
    )
    return replace(
        TASK,
        start_offset=draw(st.just(0) | st.integers(0, end)),
        end_offset=draw(st.just(end) | st.integers(0, end)),
        aborted=tuple(
            AbortedTransaction(producer_id, min(a, b), max(a, b)) for producer_id, a, b in aborted
        ),
    )


options_of_reading = st.builds(
    ReadOptions,
    columns=st.just(ALL_COLUMNS) | columns,
    includes_control=st.booleans(),
    min_timestamp_ms=st.none() | st.integers(NOW_MS - 100, NOW_MS + 100),
    max_timestamp_ms=st.none() | st.integers(NOW_MS - 100, NOW_MS + 10_000),
    rows_per_batch=st.sampled_from([1, 7, 8192]),
    bytes_per_batch=st.sampled_from([1, 200, 1024 * 1024]),
)


@settings(deadline=None)
@given(st.data())
def test_rows_are_what_the_records_say_one_by_one(data: st.DataObject) -> None:
    segment, end = data.draw(logs())
    task, options = data.draw(tasks(end)), data.draw(options_of_reading)

    assert read(segment, task, options) == expected(segment, task, options)


@settings(deadline=None)
@given(st.data())
def test_a_flipped_bit_is_told_or_changes_nothing(data: st.DataObject) -> None:
    segment, end = data.draw(logs())
    task, options = data.draw(tasks(end)), data.draw(options_of_reading)
    good = expected(segment, task, options)
    spoilt = bytearray(segment)
    place = data.draw(st.sampled_from(covered_by_checksums(segment)))
    spoilt[place] ^= 1 << data.draw(st.integers(0, 7))
    disk, whole = stored(bytes(spoilt), task)

    found = []
    is_told = False
    try:
        for batch in record_batches(disk, whole, options):
            found += rows([batch])
    except DamagedBatchError:
        is_told = True

    assert found == (good[: len(found)] if is_told else good)


def covered_by_checksums(segment: bytes) -> list[int]:
    """Places of all but base offsets and leader epochs, which no checksum covers: those two change
    when a batch is appended.
    """
    places: list[int] = []
    for position, header in headers(segment):
        first = LEADER_EPOCH_END if header.magic == 2 else LOG_OVERHEAD
        places += range(position + first, position + header.size_bytes)
        places += range(position + 8, position + LOG_OVERHEAD)
    return places


@settings(deadline=None)
@given(st.data())
def test_any_bytes_give_rows_or_are_told(data: st.DataObject) -> None:
    segment, _ = data.draw(logs())
    spoilt = bytearray(segment)
    for _ in range(data.draw(st.integers(0, 3))):
        spoilt[data.draw(st.integers(0, len(spoilt) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(spoilt)))
    disk, task = stored(bytes(spoilt[:cut]) + data.draw(st.binary(max_size=80)))

    with suppress(DamagedBatchError):
        rows(record_batches(disk, task, data.draw(options_of_reading)))
    with suppress(DamagedBatchError):
        rows(header_batches(disk, task, ("baseOffset", "maxTimestamp", "crcValid", "lastSequence")))
