"""The hash of a group's topics is that of Apache Kafka 4.3.1, to the bit."""

from __future__ import annotations

import subprocess
import sys
from uuid import UUID

import pytest

from kbroker.coordinator.consumer_group.metadata_hash import group_hash, topic_hash
from tests.golden.group_records import lines, uuid_of

ID = UUID(int=0xC20A1798_ECA1_4D88_A940_4E31BA19993D)


def test_topics_have_the_hashes_that_kafka_gives_them() -> None:
    topics = [line for line in lines() if "topic" in line]

    hashes = [
        topic_hash(line["topic"], uuid_of(line["id"]), line["partitions"], line["racks"])
        for line in topics
    ]

    assert len(topics) >= 160
    assert hashes == [line["hash"] for line in topics]


def test_groups_have_the_hashes_that_kafka_gives_them() -> None:
    groups = [line for line in lines() if "topics" in line]

    assert len(groups) >= 40
    assert [group_hash(line["topics"]) for line in groups] == [line["hash"] for line in groups]


def test_the_order_of_topics_makes_no_difference() -> None:
    assert (
        group_hash({"a": 1, "b": 2}) == group_hash({"b": 2, "a": 1}) != group_hash({"a": 2, "b": 1})
    )


@pytest.mark.parametrize(
    "changed",
    [
        topic_hash("t", ID, 3, [["r"], ["r"], []]),
        topic_hash("t", UUID(int=ID.int + 1), 2, [["r"], ["s"]]),
        topic_hash("u", ID, 2, [["r"], ["s"]]),
        topic_hash("t", ID, 2, [["s"], ["r"]]),
        topic_hash("t", ID, 2, [["r", "r"], ["s"]]),
        topic_hash("t", ID, 2, [[], []]),
    ],
)
def test_another_id_name_count_or_rack_is_another_hash(changed: int) -> None:
    assert changed != topic_hash("t", ID, 2, [["r"], ["s"]])


def test_no_racks_and_none_anywhere_are_the_same() -> None:
    assert topic_hash("t", ID, 2) == topic_hash("t", ID, 2, [[], []])


def test_the_library_is_imported_when_a_hash_is_asked_for() -> None:
    script = (
        "import sys; from kbroker.coordinator.consumer_group.metadata_hash import group_hash\n"
        "assert 'xxhash' not in sys.modules; group_hash({'t': 1}); assert 'xxhash' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
