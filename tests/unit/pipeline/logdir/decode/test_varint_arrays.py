"""Varints at many places: the same as one at a time, or nothing."""

from __future__ import annotations

import numpy as np
import pytest

from kbroker.pipeline.logdir.decode.varint_arrays import (
    UnprovenError,
    read_signed,
    read_unsigned,
    zigzag,
)
from kbroker.record.default_record import read_varint, write_varint

NUMBERS = [0, -1, 1, 63, -64, 64, 8191, 8192, -1_048_577, 100_000_000, 3, 2]


def written(numbers: list[int]) -> tuple[np.ndarray[tuple[int], np.dtype[np.uint8]], list[int]]:
    out = bytearray()
    places = []
    for number in numbers:
        places.append(len(out))
        write_varint(out, number)
    return np.frombuffer(bytes(out), np.uint8), places


@pytest.mark.parametrize(
    "numbers", [NUMBERS, NUMBERS[:4], [100, 200, 300], [100, 100_000], [5, 100_000], [10**6] * 3]
)
def test_varints_of_mixed_sizes_are_read(numbers: list[int]) -> None:
    data, places = written(numbers)

    unsigned, after = read_unsigned(data, np.array(places))

    assert zigzag(unsigned).tolist() == numbers
    assert after.tolist() == [*places[1:], len(data)]


@pytest.mark.parametrize("number", [2**40, -(2**61), 2**62 - 1, -(2**62), 7])
def test_long_varints_are_read_as_times(number: int) -> None:
    data, places = written([number, 1, number])

    values, after = read_signed(data, np.array(places))

    assert values.tolist() == [number, 1, number]
    assert after[-1] == len(data)


def test_a_varint_of_five_bytes_is_for_the_slow_way() -> None:
    data, places = written([1, 2**30])

    with pytest.raises(UnprovenError):
        read_unsigned(data, np.array(places))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff", b"\xff" * 20])
def test_a_varint_that_is_cut_short_or_endless_proves_nothing(data: bytes) -> None:
    with pytest.raises(UnprovenError):
        read_signed(np.frombuffer(data, np.uint8), np.array([0]))


def test_random_places_give_what_the_reader_of_one_gives() -> None:
    random = np.random.default_rng(5)
    data = random.integers(0, 200, 4000).astype(np.uint8)
    places = [
        place for place in range(3990) if any(byte < 0x80 for byte in data[place : place + 4])
    ]

    unsigned, after = read_unsigned(data, np.array(places))

    buffer = data.tobytes()
    assert list(zip(zigzag(unsigned).tolist(), after.tolist(), strict=True)) == [
        read_varint(buffer, place) for place in places
    ]
