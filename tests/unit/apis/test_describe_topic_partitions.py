"""DescribeTopicPartitions: pages of topics, each going on where the one before ended."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis.describe_topic_partitions import handle
from kbroker.config.socket_server_config import SocketServerConfig
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kbroker.turns import ENTRIES, turns
from tests.fakes.clusters.replication_cluster import topic_id_of
from tests.fakes.requests.denying_authorizer import ask, services_without

pytestmark = pytest.mark.usefixtures("small_or_large")

Page = tuple[list[tuple[str, list[int]]], tuple[str, int] | None]
INVALID = ErrorCode.INVALID_REQUEST


@pytest.fixture
def call(call: Any, cluster: Any) -> Any:
    """A broker that knows a topic with one partition and one with three."""
    cluster.hear_of("b")
    for partition in (2, 0, 1):
        cluster.hear_of("a", partition, leader=2, isr=(2, 1), replicas=(1, 2))
    return call


def request(
    *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsRequest:
    kind = DescribeTopicPartitionsRequest
    where = None if cursor is None else kind.Cursor(topic_name=cursor[0], partition_index=cursor[1])
    return kind(
        topics=[kind.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=where,
    )


def page(response: Any) -> Page:
    assert {topic.error_code for topic in response.topics} <= {0}
    at = response.next_cursor
    return (
        [(t.name, [row.partition_index for row in t.partitions]) for t in response.topics],
        None if at is None else (at.topic_name, at.partition_index),
    )


def test_topics_are_told_by_name_with_their_partitions_in_order(call: Any) -> None:
    response = call(handle, request("b", "a", "b"), 0)

    assert page(response) == ([("a", [0, 1, 2]), ("b", [0])], None)
    first = response.topics[0]
    assert (first.topic_id, first.is_internal) == (topic_id_of("a"), False)
    assert first.topic_authorized_operations == 3576
    row = first.partitions[0]
    assert (row.error_code, row.leader_id, row.leader_epoch) == (0, 2, 0)
    assert (row.replica_nodes, row.isr_nodes, row.offline_replicas) == ([1, 2], [2, 1], [])
    assert (row.eligible_leader_replicas, row.last_known_elr) == ([], [])


def test_no_names_stand_for_all_topics(call: Any) -> None:
    assert page(call(handle, request(), 0)) == ([("a", [0, 1, 2]), ("b", [0])], None)


@pytest.mark.parametrize(("limit", "expected"), [
    (4, ([("a", [0, 1, 2]), ("b", [0])], None)),
    (3, ([("a", [0, 1, 2])], ("b", 0))),
    (2, ([("a", [0, 1])], ("a", 2))),
    (0, ([("a", [0])], ("a", 1))),
    (-5, ([("a", [0])], ("a", 1))),
])  # fmt: skip
def test_a_page_holds_as_many_partitions_as_are_asked_for(
    call: Any, limit: int, expected: Page
) -> None:
    assert page(call(handle, request(limit=limit), 0)) == expected


def test_the_broker_allows_a_page_only_so_many(call: Any) -> None:
    config = SimpleNamespace(socket_server=SocketServerConfig(max_request_partition_size_limit=2))
    call.services = replace(call.services, config=config)

    assert page(call(handle, request(), 0)) == ([("a", [0, 1])], ("a", 2))
    missing = call(handle, request("x", "y", "z"), 0)
    assert [topic.name for topic in missing.topics] == ["x", "y"]
    assert missing.next_cursor.topic_name == "z"


@pytest.mark.parametrize(("cursor", "expected"), [
    (("a", 1), [("a", [1, 2]), ("b", [0])]),
    (("a", 3), [("a", []), ("b", [0])]),
    (("b", 0), [("b", [0])]),
    (("aa", 7), [("b", [0])]),
    (("", 0), [("a", [0, 1, 2]), ("b", [0])]),
    (("z", 0), []),
])  # fmt: skip
def test_a_page_begins_at_the_cursor(
    call: Any, cursor: tuple[str, int], expected: list[tuple[str, list[int]]]
) -> None:
    assert page(call(handle, request(cursor=cursor), 0)) == (expected, None)


def test_pages_put_together_are_all(call: Any) -> None:
    found, cursor = [], None
    for _ in range(4):
        rows, cursor = page(call(handle, request(limit=1, cursor=cursor), 0))
        found += [(name, number) for name, numbers in rows for number in numbers]

    assert (found, cursor) == ([("a", 0), ("a", 1), ("a", 2), ("b", 0)], None)


@pytest.mark.parametrize("cursor", [("aa", 0), ("z", 0), ("a", -1)])
def test_a_cursor_outside_of_what_is_asked_for_is_refused_for_every_topic(
    call: Any, cluster: Any, cursor: tuple[str, int]
) -> None:
    asked = request("b", "a", cursor=cursor)
    response = cluster.loop.run_until_complete(ask(call.services, asked, 0))

    found = [(topic.name, topic.error_code) for topic in response.topics]
    assert found == [("b", INVALID), ("a", INVALID)]


@pytest.mark.parametrize(("name", "code"), [
    ("aa", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
])  # fmt: skip
def test_a_topic_that_is_not_there_is_told_and_takes_no_room(
    call: Any, name: str, code: ErrorCode
) -> None:
    response = call(handle, request(name, "a", "b", limit=4), 0)

    found = {topic.name: (topic.error_code, len(topic.partitions)) for topic in response.topics}
    assert found == {name: (code, 0), "a": (0, 3), "b": (0, 1)}
    assert {topic.topic_authorized_operations for topic in response.topics} == {3576}
    assert response.next_cursor is None


def test_a_full_page_ends_before_a_topic_that_is_not_there(call: Any) -> None:
    response = call(handle, request("a", "a0", "b", limit=3), 0)

    assert page(response) == ([("a", [0, 1, 2])], ("a0", 0))


def test_a_partition_whose_leader_cannot_be_reached_has_none(call: Any, cluster: Any) -> None:
    cluster.hear_of("lost", leader=9, leader_epoch=5)

    (row,) = call(handle, request("lost"), 0).topics[0].partitions

    assert (row.error_code, row.leader_id, row.leader_epoch) == (0, -1, 5)


@pytest.mark.parametrize("names", [
    [f"t{number:05}" for number in range(5_000)],
    [f"t{number:05}" for number in reversed(range(5_000))],
    [f"t{number * 7 % 5_000:05}" for number in range(10_000)],
], ids=["rising", "falling", "mixed, twice"])  # fmt: skip
def test_the_first_of_many_names_are_told_with_other_requests_in_between(
    call: Any, cluster: Any, names: list[str]
) -> None:
    config = SimpleNamespace(socket_server=SocketServerConfig(max_request_partition_size_limit=9))
    call.services = replace(call.services, config=config)
    had = 0

    def count() -> None:
        nonlocal had
        had += 1
        cluster.loop.call_soon(count)

    cluster.loop.call_soon(count)
    response = call(handle, request("a", *names, cursor=("t00003", 0)), 0)

    assert [topic.name for topic in response.topics] == [f"t{n:05}" for n in range(3, 12)]
    assert (response.next_cursor.topic_name, response.next_cursor.partition_index) == ("t00012", 0)
    assert had >= len(names) // ENTRIES


def test_what_may_not_be_seen_is_refused_where_named_and_left_out_of_all(
    call: Any, cluster: Any
) -> None:
    denied = AclOperation.DESCRIBE, AclResource(AclResourceType.TOPIC, "a")
    call.services = services_without(call.services, denied)

    named = call(handle, request("a", "b"), 0)
    every = call(handle, request(), 0)

    assert [(topic.name, topic.error_code) for topic in named.topics] == [
        ("b", ErrorCode.NONE),
        ("a", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]
    assert page(every) == ([("b", [0])], None)


def test_many_that_may_not_be_seen_are_refused_with_other_requests_in_between(
    call: Any, cluster: Any
) -> None:
    names = [f"t{number:05}" for number in range(8 * ENTRIES)]
    denied = [(AclOperation.DESCRIBE, AclResource(AclResourceType.TOPIC, name)) for name in names]
    call.services = services_without(call.services, *denied)

    async def given() -> int:
        return turns().given

    before = cluster.loop.run_until_complete(given())
    response = call(handle, request(*names), 0)

    assert [topic.name for topic in response.topics] == names
    took = cluster.loop.run_until_complete(given()) - before
    assert took >= 3 * len(names) // ENTRIES, "to look, to answer, and to free"
