"""`kbroker topic copy` as its users meet it."""

from __future__ import annotations

import json

import pytest

from compat_tests.commands.command_line import FINE, ITEM_FAILED, USAGE, Done, Run

ODD = [
    {"partition": 1, "timestamp_ms": 5, "key": "k", "value": None, "headers": []},
    {"partition": 1, "timestamp_ms": 3, "key": "", "value": "", "headers": [["h", None]]},
    {"partition": 1, "timestamp_ms": 7, "key": None, "value": {"base64": "/wA="},
     "headers": [["a", "1"], ["a", "2"]]},
]  # fmt: skip


def rows(done: Done) -> list[dict[str, object]]:
    assert done.code == FINE, done.err
    found = [json.loads(line) for line in done.lines()]
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


@pytest.fixture
def filled(kbroker: Run, topic: str) -> str:
    """Two partitions: large compressed batches in the first one, odd records in the second."""
    kbroker("topic", "create", topic, "--partitions", "2", "--config", "retention.ms=-1")
    lines = "".join(f"k{number}:{number}-{'x' * 90}\n" for number in range(25_000))
    kbroker(
        "produce", topic, "--partition", "0", "--key-separator", ":", "--header", "h=v",
        "--timestamp", "-1h", stdin=lines,
    )  # fmt: skip
    kbroker("produce", topic, "--input", "jsonl", stdin="\n".join(map(json.dumps, ODD)))
    return topic


def test_a_copy_has_the_same_records_in_the_same_places(
    kbroker: Run, bootstrap: str, filled: str
) -> None:
    target = f"{filled}-copy"

    copied = kbroker("topic", "copy", filled, target, "--to-bootstrap", bootstrap)
    again = kbroker("topic", "copy", filled, target, "--from", "24990")

    assert f"{target}: created" in copied.err
    assert f"25,003 records copied from {filled} to {target}" in copied.err
    settings = [line.split() for line in kbroker("topic", "describe", target).lines()]
    assert [target, "retention.ms", "-1", "topic"] in settings
    assert "10 records copied" in again.err
    source = rows(kbroker("consume", filled, "--output", "jsonl"))
    found = rows(kbroker("consume", target, "--output", "jsonl"))
    last = [row | {"offset": int(str(row["offset"])) + 10} for row in source[24_990:25_000]]
    expected = source[:25_000] + last + source[25_000:]
    assert found == [row | {"topic": target} for row in expected]


def test_records_are_placed_by_their_keys_where_that_is_wanted(kbroker: Run, filled: str) -> None:
    target = f"{filled}-three"
    kbroker("topic", "create", target, "--partitions", "3", "--config", "retention.ms=-1")

    copied = kbroker("topic", "copy", filled, target, "--by-key", "--from", "-2000")
    keyed = kbroker("produce", target, "--key", "k24999", stdin="there\n")

    assert (copied.code, keyed.code) == (FINE, FINE), copied.err
    found = rows(kbroker("consume", target, "--output", "jsonl"))
    assert len({row["partition"] for row in found}) == 3
    assert len({row["partition"] for row in found if row["key"] == "k24999"}) == 1
    assert len(found) == 2_004


def test_a_copy_keeps_times_where_the_source_has_those_of_the_broker(
    kbroker: Run, topic: str
) -> None:
    own_times = ("--config", "message.timestamp.type=LogAppendTime")
    kbroker("topic", "create", topic, *own_times)
    kbroker("produce", topic, stdin="a\n")

    copied = kbroker("topic", "copy", topic, f"{topic}-b")
    wished = kbroker("topic", "copy", topic, f"{topic}-c", *own_times)

    assert "message.timestamp.type of" in copied.err
    assert "is not copied" not in wished.err
    source, kept, again = (
        rows(kbroker("consume", name, "--output", "jsonl"))[0]["timestamp_ms"]
        for name in (topic, f"{topic}-b", f"{topic}-c")
    )
    assert kept == source
    assert again > source  # type: ignore[operator]


def test_a_copy_that_cannot_be_is_told(kbroker: Run, topic: str) -> None:
    kbroker("topic", "create", topic, "--partitions", "2")
    kbroker("topic", "create", f"{topic}-one")

    def refused(*arguments: str, code: int = ITEM_FAILED) -> str:
        return kbroker("topic", "copy", *arguments).refused(code)

    assert "cannot be copied to itself" in refused(topic, topic, code=USAGE)
    assert f"{topic}-one has 1 partition, {topic} has 2" in refused(topic, f"{topic}-one")
    assert "retention.ms" in refused(topic, f"{topic}-b", "--config", "retention.ms=abc")
