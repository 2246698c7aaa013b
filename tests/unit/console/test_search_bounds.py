"""Where a search begins and ends, whatever a leader says."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.record_places import END, START, Kind, Place
from kbroker.console.gaps import Gaps
from kbroker.console.search_bounds import Stretch, bounds_of
from kbroker.model import TopicPartition
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
FIRST, END_OFFSET, STABLE = -2, -1, 90


class Links:
    """Partition 0 has offsets 10 to 100, the first open transaction at 90, and a record of time
    1,000 at 42; the leader of partition 1 is silent.
    """

    def __init__(self) -> None:
        self.silent: dict[int, Exception] = {}

    def ask(self, node_id: int, request: ListOffsetsRequest) -> Any:
        if node_id != 0:
            raise TimeoutError("no answer")
        moment = request.topics[0].partitions[0].timestamp
        offset = {FIRST: 10, END_OFFSET: 100, 1_000: 42}.get(moment, -1)
        if moment == END_OFFSET and request.isolation_level:
            offset = STABLE
        row = ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=0, offset=offset)
        topic = ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=[row])
        return ListOffsetsResponse(topics=[topic])


def bounds(
    start: Place, end: Place = END, starts: dict[int, int] | None = None, *, committed: bool = False
) -> tuple[tuple[int, int], tuple[str, ...]]:
    """Bounds of partition 0, and what is said."""
    gaps = Gaps()
    stretch = Stretch(start=start, starts=starts or {}, end=end, only_committed=committed)
    begins, ends = bounds_of(cast("ClusterLinks", Links()), {P0: 0, P1: 1}, stretch, gaps)
    assert begins.keys() == ends.keys() == {P0}
    return (begins[P0], ends[P0]), gaps.sentences()


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (START, END, (10, 100)),
        (END, END, (100, 100)),
        (Place(Kind.LAST, 5), END, (95, 100)),
        (Place(Kind.LAST, 500), END, (10, 100)),
        (Place(Kind.OFFSET, 20), Place(Kind.OFFSET, 30), (20, 30)),
        (Place(Kind.TIME, 1_000), END, (42, 100)),
        (Place(Kind.TIME, 2_000), END, (100, 100)),
        (START, Place(Kind.TIME, 1_000), (10, 42)),
    ],
)
def test_places_are_offsets_within_the_partition(
    start: Place, end: Place, expected: tuple[int, int]
) -> None:
    assert bounds(start, end) == (expected, ())


def test_an_offset_that_is_not_there_is_named() -> None:
    assert bounds(Place(Kind.OFFSET, 3)) == (
        (10, 100),
        ("offset 3 is no longer there: beginning at 10",),
    )
    assert bounds(Place(Kind.OFFSET, 300)) == (
        (100, 100),
        ("offset 300 is beyond the end offset 100",),
    )


def test_offsets_to_go_on_from_win_and_are_moved_into_the_partition() -> None:
    assert bounds(Place(Kind.OFFSET, 3), starts={0: 77}) == ((77, 100), ())
    assert bounds(START, starts={0: 777}) == (
        (100, 100),
        ("t-0 ends at offset 100 now: it is read from there, not 777",),
    )


def test_an_open_transaction_ends_what_is_committed_and_is_named() -> None:
    found, said = bounds(Place(Kind.LAST, 5), committed=True)

    assert found == (85, 90)
    assert said[0].startswith("t-0 has an open transaction at offset 90")
