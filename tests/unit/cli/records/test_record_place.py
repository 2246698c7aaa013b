"""Where reading begins and ends."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

import click
import pytest

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.records.record_place import (
    END,
    START,
    Kind,
    Place,
    check_start,
    offsets_at,
    parse_place,
)
from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks, TopicView
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
    ("text", "expected"),
    [
        ("start", START),
        ("end", END),
        ("0", Place(Kind.OFFSET, 0)),
        ("20261121", Place(Kind.OFFSET, 20_261_121)),
        ("-100", Place(Kind.LAST, 100)),
        ("-0", Place(Kind.LAST, 0)),
        ("2026-11-21", Place(Kind.TIME, DAY_MS)),
        ("2026-11-21T01:00:00+01:00", Place(Kind.TIME, DAY_MS)),
    ],
)
def test_a_place_is_named(text: str, expected: Place) -> None:
    assert parse_place("--from", text) == expected


def test_a_time_ago_is_a_time() -> None:
    hour, two = parse_place("--from", "-1h"), parse_place("--from", "-2h")

    assert hour.kind is two.kind is Kind.TIME
    assert hour.number - two.number == pytest.approx(3_600_000, abs=1_000)


@pytest.mark.parametrize("text", ["", "tomorrow", "-", "-1w", "1.5", "٣"])
def test_anything_else_is_told_with_what_there_is(text: str) -> None:
    with pytest.raises(click.UsageError, match=r"--to '.*' is none of: start, end, an offset"):
        parse_place("--to", text)


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


def test_an_offset_that_is_beyond_every_end_is_refused() -> None:
    starts = {TopicPartition("t", 0): 100, TopicPartition("t", 1): 5}

    with pytest.raises(CommandError, match="--from 101 is beyond the end offset 100"):
        check_start(Place(Kind.OFFSET, 101), starts)
    check_start(Place(Kind.OFFSET, 100), starts)


def test_an_offset_that_is_gone_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    check_start(Place(Kind.OFFSET, 3), {TopicPartition("t", 0): 10})
    check_start(Place(Kind.OFFSET, 3), {TopicPartition("t", 0): 3})

    assert capsys.readouterr().err == "offset 3 is no longer there: beginning at 10\n"
