"""Where reading begins and ends."""

from __future__ import annotations

import click
import pytest

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.records.record_place import check_start, parse_place
from kbroker.client.record_places import END, START, Kind, Place
from kbroker.model import TopicPartition

DAY_MS = 1_795_219_200_000


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


def test_an_offset_that_is_beyond_every_end_is_refused() -> None:
    starts = {TopicPartition("t", 0): 100, TopicPartition("t", 1): 5}

    with pytest.raises(CommandError, match="--from 101 is beyond the end offset 100"):
        check_start(Place(Kind.OFFSET, 101), starts)
    check_start(Place(Kind.OFFSET, 100), starts)


def test_an_offset_that_is_gone_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    check_start(Place(Kind.OFFSET, 3), {TopicPartition("t", 0): 10})
    check_start(Place(Kind.OFFSET, 3), {TopicPartition("t", 0): 3})

    assert capsys.readouterr().err == "offset 3 is no longer there: beginning at 10\n"
