"""What is said of a broker's health."""

from __future__ import annotations

import json

from kbroker.http.health import (
    DISKS,
    MEMBERSHIP,
    Check,
    all_leaderless,
    problems_in,
    readiness,
    without_details,
)
from kbroker.model import TopicPartition

WELL = Check(name=MEMBERSHIP)
ILL = Check(name=DISKS, problem="offline: /data")


def test_one_problem_is_enough() -> None:
    assert readiness([WELL]) == (
        True,
        {"ready": True, "checks": [{"name": MEMBERSHIP, "ok": True}]},
    )
    assert readiness([WELL, ILL])[0] is False


def test_an_excluded_check_is_shown_and_does_not_count() -> None:
    is_ready, value = readiness([WELL, ILL], [DISKS])

    assert is_ready
    row = {"name": DISKS, "ok": False, "excluded": True, "problem": "offline: /data"}
    assert value["checks"][1] == row
    assert problems_in(value) == []


def test_what_is_read_is_what_was_written() -> None:
    _, value = readiness([WELL, ILL])

    assert problems_in(json.loads(json.dumps(value))) == ["disks: offline: /data"]
    assert problems_in(without_details(value)) == ["disks: not well"]


def test_three_partitions_are_named() -> None:
    partitions = [TopicPartition("t", index) for index in range(5)]

    assert all_leaderless([]) is None
    assert all_leaderless(partitions[:1]) == "t-0 has no leader"
    assert all_leaderless(partitions) == (
        "t-0 has no leader; t-1 has no leader; t-2 has no leader; and 2 more"
    )
