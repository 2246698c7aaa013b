"""A look at the end of a batch: what it confirms, and what it leaves to the walk."""

from __future__ import annotations

import pytest

from kbroker.record.batch_tail import tail_fits
from kbroker.record.record_batch import HEADER_SIZE, Record, build, read_header
from tests.fakes.logs.walked_batch import walk_batch


@pytest.mark.parametrize("count", [1, 2, 64, 65, 500])
@pytest.mark.parametrize("value_bytes", [0, 1, 60, 1_000, 9_000])
def test_the_tail_of_an_honest_batch_fits(count: int, value_bytes: int) -> None:
    entries = [
        Record(n, 1000 + n // 3, b"k", bytes([1 + n % 255]) * value_bytes) for n in range(count)
    ]
    batch = bytearray(build(entries))

    assert tail_fits(read_header(batch), batch)
    assert tail_fits(read_header(batch), memoryview(batch))


@pytest.mark.parametrize("key", [None, b"", b"k", b"k" * 63, b"k" * 64, b"k" * 9_000])
@pytest.mark.parametrize("value", [None, b"", b"v" * 63, b"v" * 64, b"v" * 9_000])
@pytest.mark.parametrize("headers", [(), (("h", None),), (("h", b"1"), ("", b""))])
def test_an_only_record_fits_whatever_it_holds(
    key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    batch = bytearray(build([Record(0, 1000, key, value, headers)]))

    assert tail_fits(read_header(batch), memoryview(batch))
    assert not tail_fits(read_header(batch), memoryview(batch)[:-1])
    assert not tail_fits(read_header(batch)._replace(max_timestamp=1001), batch)


@pytest.mark.parametrize("position", range(HEADER_SIZE, HEADER_SIZE + 13))
def test_an_only_record_with_another_length_does_not_fit(position: int) -> None:
    batch = bytearray(build([Record(0, 1000, b"kk", b"vv", (("h", b"1"),))]))
    is_length = position - HEADER_SIZE not in (5, 6, 8, 9, 12)  # bytes of key, value, header key
    batch[position] ^= 0x42

    assert tail_fits(read_header(batch), batch) is not is_length


def test_a_batch_full_of_zeros_is_left_to_the_walk_at_worst() -> None:
    batch = bytearray(build([Record(n, 0, b"", bytes(2_000)) for n in range(9)]))

    assert not tail_fits(read_header(batch)._replace(max_timestamp=1), batch)
    assert walk_batch(read_header(batch), batch) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"record_count": 101, "last_offset_delta": 100},
        {"record_count": 99, "last_offset_delta": 98},
        {"max_timestamp": 2_000_000},
        {"max_timestamp": 1_098},
        {"base_timestamp": 999},
    ],
    ids=str,
)
def test_a_tail_that_its_header_does_not_speak_of_does_not_fit(change: dict[str, int]) -> None:
    batch = bytearray(build([Record(n, 1000 + n, b"k", b"v" * 50) for n in range(100)]))

    assert not tail_fits(read_header(batch)._replace(**change), batch)


@pytest.mark.parametrize("position", [-55, -56, -57, -58, -59])
def test_a_last_record_with_another_length_time_or_offset_does_not_fit(position: int) -> None:
    batch = bytearray(build([Record(n, 1000, b"k", b"v" * 50) for n in range(100)]))
    batch[position] ^= 0x42

    assert not tail_fits(read_header(batch), batch)


def test_the_newest_record_in_the_middle_is_left_to_the_walk() -> None:
    batch = bytearray(build([Record(n, 1000 - n, b"k", b"v") for n in range(100)]))

    assert not tail_fits(read_header(batch), batch)
    assert walk_batch(read_header(batch), batch).max_timestamp == 1000
