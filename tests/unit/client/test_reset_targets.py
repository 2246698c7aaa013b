"""Where a group goes on: what comes of a target in a partition, and files of offsets."""

from __future__ import annotations

import pytest

from kbroker.client.reset_targets import ResetPlace, Target, new_offset, offsets_in
from kbroker.model import TopicPartition

NOW_MS = 1_000_000_000_000
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("target", "at_moment", "expected"),
    [
        (Target(offset=7), None, 7),
        (Target(offset=1), None, 3),  # it begins at 3
        (Target(offset=99), None, 10),  # and ends at 10
        (Target(shift=2), None, 7),
        (Target(shift=-9), None, 3),
        (Target(moment=NOW_MS), 6, 6),
        (Target(moment=NOW_MS), -1, 10),  # no record is as late
        (Target(of_file={P0: 8}), None, 8),
    ],
)
def test_an_offset_stays_within_its_partition(
    target: Target, at_moment: int | None, expected: int
) -> None:
    assert new_offset(ResetPlace(5, 3, 10, at_moment), target, P0) == expected


def test_what_is_not_committed_cannot_be_moved() -> None:
    assert new_offset(ResetPlace(None, 3, 10, None), Target(shift=1), P0) is None


def test_a_time_whose_offset_is_not_told_is_not_the_end() -> None:
    assert new_offset(ResetPlace(5, 3, 10, None), Target(moment=NOW_MS), P0) is None


@pytest.mark.parametrize(
    "lines",
    [
        ["t,0,5", "t,1,7"],
        ["topic,partition,offset", "t,0,5", "t,1,7"],
        ["group,topic,partition,committed_offset,lag", "g,t,0,5,1", "g,t,1,7,0"],
        ["group,topic,partition,committed_offset,new_offset", "g,t,0,1,5", "g,t,1,,7"],
        ["topic,partition,offset", "t,0,5", "", "t,1,7", "u,0,"],
    ],
)
def test_offsets_are_read_as_kafka_and_our_commands_write_them(lines: list[str]) -> None:
    assert offsets_in(lines) == {P0: 5, P1: 7}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["topic,lag", "t,1"], "its head names no topic, partition and offset"),
        (["t,zero,1"], "row 1 is not topic, partition, offset"),
        (["topic,partition,offset", "t"], "row 1 is not topic, partition, offset"),
        (
            ["group,topic,partition,committed_offset", "g,t,0,5", "h,t,0,9"],
            "row 2 names t-0 again, with another offset",
        ),
        (["topic,partition,offset", "t,0,5", "t,1,five"], "row 2 is not topic, partition, offset"),
    ],
)
def test_a_file_of_another_kind_is_refused(lines: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        offsets_in(lines)
