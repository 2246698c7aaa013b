"""Group requests at and beyond their limits: records that no batch of `__consumer_offsets` can hold,
names as long as a length field allows, topics named twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from compat_tests.clients.raw_connection import ClosedError
from compat_tests.wire.group_member import ASSIGNMENT, Member, subscription
from compat_tests.wire.wire_client import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    WireClient,
    code,
)

T = TypeVar("T")
Either = Callable[[T, T], T]

BEYOND_A_BATCH = 1_100_000  # message.max.bytes is 1,048,588
PARTITIONS = 300  # times 4,096 bytes of metadata
LONGEST = 32_767


@pytest.fixture(scope="module")
def made(bootstrap: str) -> str:
    """A topic with many partitions; groups are served when it is there."""
    wire = WireClient(bootstrap)
    wire.wait_for_coordinator("any")
    topic = wire.create_topic(partitions=PARTITIONS)
    wire.close()
    return topic


def commit(wire: WireClient, group: str, topic: str, metadata: str, count: int) -> set[str]:
    """The codes of one commit of offset 7 to many partitions."""
    rows = [
        {"partition_index": index, "committed_offset": 7, "committed_metadata": metadata}
        for index in range(count)
    ]
    answer = wire.call(
        OFFSET_COMMIT,
        7,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": topic, "partitions": rows}],
    )
    return {code(row.error_code) for each in answer.topics for row in each.partitions}


def committed(wire: WireClient, group: str, topic: str, count: int) -> set[tuple[str, int]]:
    """(code, offset) of many partitions; stable ones, so that nothing is on its way."""
    topics = [{"name": topic, "partition_indexes": list(range(count))}]
    answer = wire.call(OFFSET_FETCH, 7, group_id=group, topics=topics, require_stable=True)
    return {(code(p.error_code), p.committed_offset) for t in answer.topics for p in t.partitions}


def test_a_commit_that_no_batch_can_hold_is_refused_whole(
    wire: WireClient, group: str, made: str, either: Either[str]
) -> None:
    refused = commit(wire, group, made, "m" * 4096, PARTITIONS)

    # 3.9.2 answers 28 too.
    assert refused == {either("28 INVALID_COMMIT_OFFSET_SIZE", "-1 UNKNOWN_SERVER_ERROR")}
    assert committed(wire, group, made, PARTITIONS) == {("0", -1)}
    assert commit(wire, group, made, "m", 3) == {"0"}
    assert committed(wire, group, made, 3) == {("0", 7)}


def test_an_assignment_that_no_record_can_hold_begins_a_rebalance(
    wire: WireClient, group: str
) -> None:
    member = Member(wire, group)
    member.join()
    huge = [{"member_id": member.member_id, "assignment": b"a" * BEYOND_A_BATCH}]

    assert member.sync(assignments=huge) == "-1 UNKNOWN_SERVER_ERROR"

    assert member.heartbeat() == "27 REBALANCE_IN_PROGRESS"
    assert member.describe().startswith("PreparingRebalance")
    member.join_and_sync()
    assert (member.generation, member.heartbeat()) == (2, "0")


def test_metadata_that_no_record_can_hold_begins_a_rebalance(wire: WireClient, group: str) -> None:
    member = Member(wire, group)
    metadata = subscription() + b"x" * BEYOND_A_BATCH

    assert code(member.join(protocols=[{"name": "range", "metadata": metadata}]).error_code) == "0"
    assert member.sync() == "-1 UNKNOWN_SERVER_ERROR"

    assert member.heartbeat() == "27 REBALANCE_IN_PROGRESS"
    member.join_and_sync()
    assert (member.generation, member.heartbeat()) == (2, "0")


def test_a_static_member_that_cannot_be_stored_keeps_its_old_id(
    wire: WireClient, connect: Callable[[], WireClient], group: str
) -> None:
    member = Member(wire, group, "instance").join_and_sync()
    second = Member(connect(), group, "instance")
    metadata = subscription() + b"x" * BEYOND_A_BATCH

    answer = second.join(protocols=[{"name": "range", "metadata": metadata}])

    assert code(answer.error_code) == "-1 UNKNOWN_SERVER_ERROR"
    assert (answer.generation_id, answer.protocol_name) == (1, "range")
    assert (answer.leader, answer.member_id) == (member.member_id, "")
    assert member.heartbeat() == "0"


@pytest.mark.parametrize("version", [5, 9])
def test_an_instance_id_that_makes_no_member_id_is_refused(
    wire: WireClient, group: str, version: int
) -> None:
    fields = Member(wire, group, "i" * LONGEST).join_fields()

    answer = wire.call(JOIN_GROUP, version, **fields)

    assert code(answer.error_code) == "-1 UNKNOWN_SERVER_ERROR"
    assert answer.generation_id == -1


def identity(name: str) -> dict[str, Any]:
    return {"group_id": name, "generation_id": 1, "member_id": "m", "group_instance_id": None}


REQUESTS: dict[str, tuple[int, int, Callable[[str], dict[str, Any]]]] = {
    "heartbeat": (HEARTBEAT, 4, identity),
    "describe": (DESCRIBE_GROUPS, 5, lambda name: {"groups": [name]}),
    "delete": (DELETE_GROUPS, 2, lambda name: {"groups_names": [name]}),
    "list": (LIST_GROUPS, 4, lambda name: {"states_filter": [name]}),
    "find": (FIND_COORDINATOR, 4, lambda name: {"key_type": 0, "coordinator_keys": [name]}),
    "fetch": (OFFSET_FETCH, 7, lambda name: {"group_id": name, "topics": None}),
    "metadata": (
        OFFSET_COMMIT,
        8,
        lambda name: {
            "group_id": "g",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [
                {
                    "name": "t",
                    "partitions": [
                        {
                            "partition_index": 0,
                            "committed_offset": 1,
                            "committed_metadata": name,
                        }
                    ],
                }
            ],
        },
    ),
}


@pytest.mark.parametrize("request_name", REQUESTS)
def test_a_string_longer_than_an_old_one_could_be_closes_the_connection(
    connect: Callable[[], WireClient], request_name: str
) -> None:
    key, version, fields = REQUESTS[request_name]

    assert connect().call(key, version, **fields("x" * LONGEST)) is not None
    with pytest.raises(ClosedError):
        connect().call(key, version, **fields("x" * (LONGEST + 1)))


def test_a_topic_named_twice_is_answered_twice(wire: WireClient, group: str, made: str) -> None:
    """3.9.2 answers it once."""

    def rows(*indexes: int) -> dict[str, Any]:
        row = {"committed_offset": 7, "committed_metadata": ""}
        return {"name": made, "partitions": [{"partition_index": i, **row} for i in indexes]}

    stored = wire.call(
        OFFSET_COMMIT,
        7,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[rows(0), rows(1, 0), rows()],
    )
    topics = [{"name": made, "partition_indexes": at} for at in ([0], [1, 0], [0, 0])]
    fetched = wire.call(OFFSET_FETCH, 5, group_id=group, topics=topics)

    assert [[p.partition_index for p in t.partitions] for t in stored.topics] == [[0], [1, 0]]
    wanted = [[(0, 7)], [(1, 7), (0, 7)], [(0, 7), (0, 7)]]
    assert [
        [(p.partition_index, p.committed_offset) for p in t.partitions] for t in fetched.topics
    ] == wanted


def test_a_member_named_twice_gets_its_last_assignment(wire: WireClient, group: str) -> None:
    member = Member(wire, group)
    member.join()
    given = [(member.member_id, b"first"), (member.member_id, ASSIGNMENT), ("nobody", b"other")]

    assignments = [{"member_id": name, "assignment": data} for name, data in given]
    assert member.sync(assignments=assignments) == "0"
    assert member.sync(assignments=[]) == "0"
