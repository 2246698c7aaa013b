"""The short forms of the hunts among groups, which start brokers of their own."""

from __future__ import annotations

import pytest

from compat_tests.cluster import group_changes, group_rounds

SMALL = ("--partitions", "8", "--clients", "franz-go,librdkafka")


@pytest.fixture(autouse=True)
def own_broker(target: str) -> None:
    if target != "kbroker":
        pytest.skip("starts kbroker")


@pytest.mark.java
def test_a_group_changes_its_protocol_and_back_under_load() -> None:
    assert group_changes.hunt("--members", "2", "--changes", "2", *SMALL) == []


def test_members_of_both_protocols_come_and_go() -> None:
    words = (
        "--members",
        "4",
        "--seconds",
        "4",
        "--pause",
        "0.8",
        "--ways",
        "join,leave",
        "--seed",
        "2",
    )
    assert group_rounds.hunt(*words, *SMALL) == []
