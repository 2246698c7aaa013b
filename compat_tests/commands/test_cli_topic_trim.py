"""`kbroker topic trim` as its users meet it."""

from __future__ import annotations

import json
import time

import pytest

from compat_tests.commands.command_line import FINE, ITEM_FAILED, USAGE, Done, Run
from compat_tests.wire.record_bytes import batch
from compat_tests.wire.wire_client import WireClient, stored_at


@pytest.fixture
def filled(bootstrap: str) -> str:
    """Two partitions: five records of two hours ago, then, in the first one, five of now."""
    wire = WireClient(bootstrap)
    topic = wire.create_topic(partitions=2)
    now_ms = int(time.time() * 1000)
    old = batch(5, timestamp_ms=now_ms - 7_200_000)
    assert [wire.produce(topic, old, partition=n) for n in (0, 1)] == [stored_at(0)] * 2
    assert wire.produce(topic, batch(5, timestamp_ms=now_ms)) == stored_at(5)
    wire.close()
    return topic


def rows(done: Done, gone: str = "deleted") -> list[tuple[int, int, int, int]]:
    assert done.code == FINE, done.err
    return [
        (row["partition"], row["start_offset"], row["end_offset"], row[gone])
        for row in map(json.loads, done.lines())
    ]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("3", [(0, 3, 10, 3), (1, 3, 5, 3)]),
        ("5", [(0, 5, 10, 5), (1, 5, 5, 5)]),
        ("0", [(0, 0, 10, 0), (1, 0, 5, 0)]),
        ("-1h", [(0, 5, 10, 5), (1, 5, 5, 5)]),
        ("-3h", [(0, 0, 10, 0), (1, 0, 5, 0)]),
        ("2001-01-01", [(0, 0, 10, 0), (1, 0, 5, 0)]),
        ("end", [(0, 10, 10, 10), (1, 5, 5, 5)]),
    ],
)
def test_records_before_an_offset_or_a_time_go(
    kbroker: Run, filled: str, before: str, expected: list[tuple[int, int, int, int]]
) -> None:
    trimmed = kbroker("topic", "trim", filled, "--before", before, "--output", "jsonl")
    described = kbroker("topic", "describe", filled, "--output", "jsonl")

    assert rows(trimmed) == expected
    starts = [json.loads(line)["start_offset"] for line in described.lines()]
    assert starts == [start for _, start, _, _ in expected]


def test_an_offset_after_the_end_deletes_nothing_there(kbroker: Run, filled: str) -> None:
    trimmed = kbroker("topic", "trim", filled, "--before", "7", "--output", "jsonl")

    assert trimmed.code == ITEM_FAILED
    assert f"{filled}-1: nothing was deleted, offset 7 is beyond the end offset 5" in trimmed.err
    kept = kbroker("topic", "trim", filled, "--before", "0", "--output", "jsonl")
    assert rows(kept) == [(0, 7, 10, 0), (1, 0, 5, 0)]


def test_only_the_named_partition_is_trimmed(kbroker: Run, filled: str) -> None:
    command = ("topic", "trim", filled, "--before", "2", "--partition", "1", "--output", "jsonl")

    assert rows(kbroker(*command)) == [(1, 2, 5, 2)]
    assert rows(kbroker(*command[:4], "0", "--output", "jsonl")) == [(0, 0, 10, 0), (1, 2, 5, 0)]


def test_a_dry_run_deletes_nothing(kbroker: Run, filled: str) -> None:
    shown = kbroker("topic", "trim", filled, "--before", "3", "--dry-run", "--output", "jsonl")
    again = kbroker("topic", "trim", filled, "--before", "0", "--output", "jsonl")

    assert rows(shown, "would_delete") == [(0, 3, 10, 3), (1, 3, 5, 3)]
    assert "nothing was deleted" in shown.err
    assert rows(again) == [(0, 0, 10, 0), (1, 0, 5, 0)]


def test_a_compacted_topic_refuses_with_exit_code_1(bootstrap: str, kbroker: Run) -> None:
    wire = WireClient(bootstrap)
    topic = wire.create_topic(configs={"cleanup.policy": "compact"})
    wire.produce(topic, batch(3))
    wire.close()

    for way, gone in (((), "deleted"), (("--dry-run",), "would_delete")):
        refused = kbroker("topic", "trim", topic, "--before", "end", "--output", "jsonl", *way)

        assert refused.code == ITEM_FAILED
        assert f"{topic}-0: " in refused.err
        assert "cleanup.policy=compact,delete" in refused.err  # what would make it possible
        assert "Error 44" not in refused.err
        assert json.loads(refused.out)[gone] == 0


def test_wrong_use_is_said_in_one_sentence(kbroker: Run, filled: str, topic: str) -> None:
    assert "none of" in kbroker("topic", "trim", filled, "--before", "noon").refused(USAGE)
    assert "--before" in kbroker("topic", "trim", filled).refused(USAGE)
    assert topic in kbroker("topic", "trim", topic, "--before", "1").refused(ITEM_FAILED)
    missing = kbroker("topic", "trim", filled, "--before", "1", "--partition", "7")
    assert "-7 (the topic has 2 partitions)" in missing.refused(ITEM_FAILED)
