"""Where a group goes on: what `--to` and `--topic` mean."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.group.reset_target import parse_target, parse_topics
from kbroker.client.cluster_links import EARLIEST, LATEST
from kbroker.client.reset_targets import Target

NOW_MS = 1_000_000_000_000


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


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=f"cannot read {tmp_path}/none: No such file") as refused:
        parse_target(f"file:{tmp_path}/none", NOW_MS)

    assert refused.value.code == ExitCode.USAGE
