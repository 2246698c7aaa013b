from __future__ import annotations

import pytest

from kbroker.replication.partitions.follower_parts import parts_for
from tests.fakes.clusters.replication_cluster import batch

ONE = bytes(batch(b"v"))
THREE = memoryview(ONE * 3)


def parts(records: memoryview, segment_bytes: int) -> list[int]:
    return [len(part) for part in parts_for(records, segment_bytes)]


def test_what_fits_a_segment_stays_in_one_piece() -> None:
    assert parts(THREE, len(THREE)) == [len(THREE)]


@pytest.mark.parametrize(("batches", "expected"), [(1, [1, 1, 1]), (2, [2, 1])])
def test_what_does_not_fit_is_cut_between_batches(batches: int, expected: list[int]) -> None:
    assert parts(THREE, batches * len(ONE)) == [count * len(ONE) for count in expected]


def test_a_batch_larger_than_a_segment_comes_alone() -> None:
    assert parts(THREE, 10) == [len(ONE)] * 3


def test_a_batch_that_is_cut_off_stays_at_the_end_of_the_last_part() -> None:
    cut = memoryview(bytes(THREE) + ONE[:20])

    assert parts(cut, len(ONE) * 2) == [len(ONE) * 2, len(ONE) + 20]
