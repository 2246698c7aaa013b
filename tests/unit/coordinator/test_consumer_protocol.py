"""The consumer protocol: bytes that members of a group exchange through it."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.coordinator.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    assignment_bytes,
    read_assignment,
    read_subscription,
    subscribed_topics,
)
from kbroker.coordinator.runtime.versioned_record import versioned
from kbroker.errors import ProtocolError
from tests.golden.group_records import embedded, from_json

READERS = {
    ConsumerProtocolSubscription: read_subscription,
    ConsumerProtocolAssignment: read_assignment,
}


@pytest.mark.parametrize("kind", READERS, ids=lambda kind: kind.__name__)
def test_bytes_are_those_of_kafkas_own_classes(
    kind: type[ConsumerProtocolSubscription | ConsumerProtocolAssignment],
) -> None:
    golden = embedded(kind.__name__)
    values = [from_json(kind, value) for _, value, _ in golden]

    assert {version for version, _, _ in golden} == {0, 1, 2, 3}
    assert [
        versioned(value, version) for value, (version, _, _) in zip(values, golden, strict=True)
    ] == [data for _, _, data in golden]
    assert [READERS[kind](data) for _, _, data in golden] == values


def test_the_topics_alone_are_those_of_the_whole() -> None:
    golden = [data for _, _, data in embedded("ConsumerProtocolSubscription")]

    assert [subscribed_topics([data]) for data in golden] == [
        frozenset(read_subscription(data).topics) for data in golden
    ]


def test_a_later_version_is_read_as_the_last_known_one() -> None:
    subscription = ConsumerProtocolSubscription(topics=["t"], generation_id=4, rack_id="r")
    later = b"\0\x09" + versioned(subscription, 3)[2:] + b"more"

    assert read_subscription(later) == subscription


@pytest.mark.parametrize(("version", "written"), [(0, b"\0\0"), (3, b"\0\3"), (9, b"\0\3")])
def test_an_assignment_is_written_in_the_version_of_a_member(version: int, written: bytes) -> None:
    data = assignment_bytes({"t": range(2), "u": [7]}, version)

    assert data[:2] == written
    assert {each.topic: each.partitions for each in read_assignment(data).assigned_partitions} == {
        "t": [0, 1],
        "u": [7],
    }
    assert read_assignment(data).user_data is None


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in READERS.values():
        with suppress(ProtocolError):
            read(data)


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0\xff\xff\xff\xff", b"\0\0\0\0\0\1"])
def test_what_is_cut_short_or_of_no_version_is_refused(data: bytes) -> None:
    for read in READERS.values():
        with pytest.raises(ProtocolError):
            read(data)
