"""What is read of the bytes of a fetch."""

from __future__ import annotations

import pytest

from kbroker.client import fetched_batches as module
from kbroker.client.fetched_batches import fetched_batches, records_of
from kbroker.errors import KafkaError
from kbroker.model import TopicPartition
from kbroker.record.compression import GZIP, ZSTD
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.record_batch import BatchOptions, ControlRecord, Record, build, build_marker
from tests.fakes.logs.unreadable_batches import (
    batch_cut_short,
    unreadable_batch,
    unreadable_message,
)

PLACE = TopicPartition("t", 0)


def batch(first: int, count: int) -> bytes:
    entries = [Record(first + n, 0, None, b"v%d" % (first + n)) for n in range(count)]
    return build(entries, base_offset=first)


def offsets(data: bytes, position: int = 0, end: int | None = None) -> list[int]:
    found = fetched_batches(PLACE, memoryview(data), position, end)
    return [record.offset for _, records in records_of(found) for record in records]


DATA = batch(0, 3) + batch(3, 2) + batch(9, 2)


@pytest.mark.parametrize(
    ("position", "end", "expected"),
    [
        (0, None, [0, 1, 2, 3, 4, 9, 10]),
        (1, None, [1, 2, 3, 4, 9, 10]),
        (4, None, [4, 9, 10]),
        (5, None, [9, 10]),
        (0, 5, [0, 1, 2, 3, 4]),
        (1, 4, [1, 2, 3]),
        (1, 2, [1]),
        (4, 10, [4, 9]),
        (0, 0, []),
        (11, None, []),
    ],
)
def test_records_are_read_from_a_place_to_an_end(
    position: int, end: int | None, expected: list[int]
) -> None:
    assert offsets(DATA, position, end) == expected


@pytest.mark.parametrize("cut", [1, 30, len(batch(9, 2)) - 1])
def test_a_last_batch_that_is_cut_short_is_left_out(cut: int) -> None:
    assert offsets(DATA[:-cut]) == [0, 1, 2, 3, 4]


def test_batches_tell_where_to_go_on() -> None:
    found = list(fetched_batches(PLACE, memoryview(DATA), 1, None))

    assert [batch.header.next_offset for batch in found] == [3, 5, 11]


def test_markers_of_transactions_are_no_records() -> None:
    options = BatchOptions(producer_id=1, producer_epoch=0)
    marker = build_marker(ControlRecord(True, 0), 0, base_offset=3, options=options)

    assert offsets(batch(0, 3) + marker + batch(4, 1)) == [0, 1, 2, 4]


def test_old_formats_are_read() -> None:
    entries = [Record(n, 5, b"k", b"v") for n in range(3)]

    assert offsets(build_legacy(entries, 1, 1), position=1) == [1, 2]


def test_records_before_a_damaged_batch_are_read() -> None:
    damaged = bytearray(DATA)
    damaged[-1] ^= 1
    found = records_of(fetched_batches(PLACE, memoryview(bytes(damaged)), 0, None))

    _, records = next(found)
    with pytest.raises(KafkaError) as refused:
        next(found)

    assert [record.offset for record in records] == [0, 1, 2, 3, 4]
    assert str(refused.value) == "CORRUPT_MESSAGE: t-0: the batch of offsets 9 to 10 is damaged"


@pytest.mark.parametrize(
    ("broken", "reason", "readable"),
    [
        (unreadable_batch(5, 3), "cannot be read: compressed records", []),
        (batch_cut_short(5, 3), "cannot be read: record cut short", [5, 6]),
        (unreadable_batch(5, 3)[:-1] + b"?", "is damaged", []),
        (unreadable_message(7, 1), "cannot be read: compressed records", []),
    ],
    ids=["packed", "cut", "damaged", "old"],
)
def test_a_batch_that_cannot_be_read_is_named_and_hides_no_others(
    broken: bytes, reason: str, readable: list[int]
) -> None:
    data = memoryview(batch(0, 3) + batch(3, 2) + broken + batch(9, 2))
    told: list[str] = []

    found = records_of(fetched_batches(PLACE, data, 0, None), told.append)

    assert [r.offset for _, records in found for r in records] == [0, 1, 2, 3, 4, *readable, 9, 10]
    (sentence,) = told
    assert sentence.startswith("t-0: the batch ")
    assert reason in sentence


def test_small_batches_are_read_together() -> None:
    data = b"".join(batch(n, 1) for n in range(100))

    ((_, records),) = records_of(fetched_batches(PLACE, memoryview(data), 0, None))

    assert len(records) == 100


LARGE = [Record(n, 0, b"k", b"v" * (n * 37 % 90)) for n in range(5, 605)]


LARGE_BATCHES = {
    "gzip": build(LARGE, base_offset=5, options=BatchOptions(compression=GZIP)),
    "zstd": build(LARGE, base_offset=5, options=BatchOptions(compression=ZSTD)),
    "old": build_legacy(LARGE, 1, GZIP),
}


@pytest.mark.parametrize("large", LARGE_BATCHES.values(), ids=LARGE_BATCHES)
@pytest.mark.parametrize(("start", "end"), [(0, None), (100, 400)])
def test_a_large_batch_comes_in_lists(
    monkeypatch: pytest.MonkeyPatch, large: bytes, start: int, end: int | None
) -> None:
    monkeypatch.setattr(module, "HELD_BYTES", 1_000)
    monkeypatch.setattr(module, "MANY_BYTES", 2_000)
    data = memoryview(batch(0, 3) + large + batch(605, 1))

    lists = [some for _, some in records_of(fetched_batches(PLACE, data, start, end))]

    found = [record for some in lists for record in some if 5 <= record.offset < 605]
    assert found == [r for r in LARGE if start <= r.offset < (end or 1_000)]
    assert max(sum(len(r.value or b"") for r in some) for some in lists) < 4_200


def test_a_large_batch_that_cannot_be_read_shows_before_any_of_its_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HELD_BYTES", 10)
    data = memoryview(batch(0, 3) + batch_cut_short(3, 9) + batch(12, 1))
    told: list[str] = []

    found = records_of(fetched_batches(PLACE, data, 0, None))
    assert [record.offset for record in next(found)[1]] == [0, 1, 2]
    with pytest.raises(KafkaError, match="t-0: the batch of offsets 3 to 11 cannot be read"):
        next(found)

    with_others = records_of(fetched_batches(PLACE, data, 0, None), told.append)
    offsets = [record.offset for _, some in with_others for record in some]
    assert offsets == [*range(11), 12]
    assert len(told) == 1
