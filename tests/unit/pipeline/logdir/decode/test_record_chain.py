"""Where records begin: sizes that are the same, change, or grow within a batch, in batches of all
lengths.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from kbroker.pipeline.logdir.decode.record_chain import Regions, record_starts
from kbroker.pipeline.logdir.decode.varint_arrays import UnprovenError
from kbroker.record.default_record import Record, write_record


def regions_of(batches: list[list[int]]) -> tuple[Regions, list[int]]:
    """Batches of records with values of these sizes, a gap between; and where records begin."""
    buffer = bytearray()
    starts, ends, places = [], [], []
    for sizes in batches:
        buffer += b"\x03gap"
        starts.append(len(buffer))
        for index, size in enumerate(sizes):
            places.append(len(buffer))
            write_record(buffer, Record(index, index * 3, b"key", bytes(size)), 0, 0)
        ends.append(len(buffer))
    counts = [len(sizes) for sizes in batches]
    arrays = (np.array(numbers, np.int64) for numbers in (starts, ends, counts))
    return Regions(bytes(buffer), *arrays), places


def found(regions: Regions) -> list[int]:
    return record_starts(regions, np.frombuffer(regions.buffer, np.uint8)).tolist()


RANDOM = Random(11)
SHAPES = {
    "one": [[5]],
    "same": [[100] * 500] * 7,
    "growing lengths of deltas": [[40] * 20_000],
    "changing": [[10] * 30 + [90] * 30 + [10] * 30 for _ in range(5)],
    "alternating": [[10, 11] * 300 for _ in range(5)],
    "random": [[RANDOM.randrange(0, 300) for _ in range(50)] for _ in range(10)],
    "random, many batches": [
        [RANDOM.randrange(0, 300) for _ in range(RANDOM.randrange(1, 30))] for _ in range(300)
    ],
    "large": [[20_000, 3, 2_200_000, 20_000], [3]],
    "short": [[1]] * 300,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_record_is_found(shape: str) -> None:
    regions, places = regions_of(SHAPES[shape])

    assert found(regions) == places


@pytest.mark.parametrize("shape", ["same", "random", "random, many batches"])
@pytest.mark.parametrize("change", [-1, 1])
def test_a_count_that_is_not_true_proves_nothing(shape: str, change: int) -> None:
    regions, _ = regions_of(SHAPES[shape])
    counts = regions.counts.copy()
    counts[-1] += change

    with pytest.raises(UnprovenError):
        found(regions._replace(counts=counts))


@pytest.mark.parametrize("shape", ["same", "random", "random, many batches"])
@pytest.mark.parametrize("change", [-1, 1])
def test_an_end_inside_a_record_proves_nothing(shape: str, change: int) -> None:
    regions, _ = regions_of(SHAPES[shape])

    with pytest.raises(UnprovenError):
        found(regions._replace(ends=regions.ends + change, buffer=regions.buffer + b"\0"))


def test_a_huge_count_allocates_nothing() -> None:
    regions, _ = regions_of([[5]])

    with pytest.raises(UnprovenError):
        found(regions._replace(counts=np.array([2**31 - 1])))


def test_lengths_that_lead_beyond_the_buffer_prove_nothing() -> None:
    payload = b"\xfe\xff\x7f" + b"\xff" * 60

    with pytest.raises(UnprovenError):
        found(Regions(payload, np.array([0]), np.array([len(payload)]), np.array([3])))
