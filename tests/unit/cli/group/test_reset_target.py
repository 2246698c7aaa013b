"""Where a group goes on: what `--to` means, and what comes of it in a partition."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.group.reset_target import (
    ResetPlace,
    Target,
    new_offset,
    offsets_in,
    parse_target,
    parse_topics,
)
from kbroker.client.cluster_links import EARLIEST, LATEST
from kbroker.model import TopicPartition

NOW_MS = 1_000_000_000_000
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", Target(moment=EARLIEST)),
        ("latest", Target(moment=LATEST)),
        ("0", Target(offset=0)),
        ("42", Target(offset=42)),
        ("+5", Target(shift=5)),
        ("-5", Target(shift=-5)),
        ("-1h", Target(moment=NOW_MS - 3_600_000)),
        ("2001-09-09T01:46:40", Target(moment=NOW_MS)),
        ("1960-01-01", Target(moment=0)),
    ],
)
def test_a_target_is_read(text: str, target: Target) -> None:
    assert parse_target(text, NOW_MS) == target


@pytest.mark.parametrize("text", ["", "tomorrow", "5h", "+-5", "१", "file"])
def test_another_text_is_no_target(text: str) -> None:
    with pytest.raises(click.UsageError, match="is none of: earliest, latest, an offset"):
        parse_target(text, NOW_MS)


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
    ("texts", "expected"),
    [
        (["t:0,1", "u"], {"t": {0, 1}, "u": set()}),
        (["t:0", "t:2", "t:0"], {"t": {0, 2}}),
        (["t:0", "t"], {"t": set()}),
        (["t", "t:0"], {"t": set()}),
    ],
)
def test_all_topics_and_partitions_that_are_named_count(
    texts: list[str], expected: dict[str, set[int]]
) -> None:
    assert parse_topics(texts) == expected


@pytest.mark.parametrize("text", ["t:", "t:0,", "t:,", "t:x", ":0", ""])
def test_half_a_topic_is_not_taken_for_a_whole_one(text: str) -> None:
    with pytest.raises(click.UsageError, match="is not TOPIC or TOPIC:0,1"):
        parse_topics([text])


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


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=f"cannot read {tmp_path}/none: No such file") as refused:
        parse_target(f"file:{tmp_path}/none", NOW_MS)

    assert refused.value.code == ExitCode.USAGE
