"""Offsets of the places where reading begins and ends."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

import pytest

from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks, TopicView
from kbroker.client.record_places import END, START, Kind, Place, offsets_at
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition

DAY_MS = 1_795_219_200_000
STARTS, ENDS, AT_TIME = {0: 10, 1: 0}, {0: 100, 1: 5}, {0: 42, 1: -1}
VIEW = TopicView(name="t", code=ErrorCode.NONE, leaders={0: 1, 1: 1})


class FakeCluster:
    """Two partitions: offsets 10 to 100, and 0 to 5."""

    def offsets(self, view: TopicView, partitions: Collection[int], moment: int) -> dict[int, int]:
        found = {EARLIEST: STARTS, LATEST: ENDS}.get(moment, AT_TIME)
        return {number: found[number] for number in partitions}


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (START, (10, 0)),
        (END, (100, 5)),
        (Place(Kind.OFFSET, 50), (50, 5)),
        (Place(Kind.OFFSET, 3), (10, 3)),
        (Place(Kind.LAST, 20), (80, 0)),
        (Place(Kind.LAST, 0), (100, 5)),
        (Place(Kind.LAST, 1_000), (10, 0)),
        (Place(Kind.TIME, DAY_MS), (42, 5)),
    ],
)
def test_a_place_is_an_offset_that_each_partition_has(
    place: Place, expected: tuple[int, int]
) -> None:
    cluster = cast(ClusterLinks, FakeCluster())

    found = offsets_at(cluster, VIEW, [0, 1], place)

    assert found == {TopicPartition("t", 0): expected[0], TopicPartition("t", 1): expected[1]}
