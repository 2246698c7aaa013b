"""OffsetDelete: which offsets a group may lose, and what is left after a restart."""

from __future__ import annotations

from typing import Any

import pytest

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.coordinator.group.coordinated_group import Committer
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.coordinator.group_coordinator import Caller
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.messages.join_group import JoinGroupRequest
from kbroker.protocol.messages.offset_delete import OffsetDeleteRequest
from kbroker.turns import ENTRIES
from tests.fakes.brokers.group_broker import GroupBroker, metadata_of
from tests.fakes.brokers.group_caller import GroupCaller
from tests.fakes.requests.denying_authorizer import services_without
from tests.fakes.running.loop_turns import counting_turns

FOLLOWED, OTHER = "t", "other"  # members of `GroupBroker.stable_member` follow t


def broker() -> GroupBroker:
    """A live group, and one that only keeps offsets; both have some of two topics."""
    broker = GroupBroker()
    broker.metadata.update(metadata_of({OTHER: 2}))
    joined = broker.stable_member("live")
    members = Committer("live", joined.member_id, None, joined.generation_id)
    for committer in (members, Committer("old")):
        broker.groups.offsets.commit(
            committer,
            [
                (TopicPartition(topic, number), CommittedOffset(offset=7, commit_timestamp_ms=0))
                for topic in (FOLLOWED, OTHER)
                for number in (0, 1)
            ],
        )
    return broker


def committed(broker: GroupBroker, group_id: str) -> list[str]:
    fetched = broker.groups.offsets.fetch(group_id, None, False)
    return sorted(str(partition) for partition, _ in fetched)


def request(group_id: str, **topics: list[int]) -> OffsetDeleteRequest:
    kind = OffsetDeleteRequest
    return kind(
        group_id=group_id,
        topics=[
            kind.OffsetDeleteRequestTopic(
                name=name,
                partitions=[kind.OffsetDeleteRequestPartition(partition_index=p) for p in numbers],
            )
            for name, numbers in topics.items()
        ],
    )


def delete(broker: GroupBroker, group_id: str, **topics: list[int]) -> dict[str, int]:
    """Codes by partition; the group's own where it is refused."""
    return codes(GroupCaller(broker).through_stages(request(group_id, **topics), 0))


def codes(response: Any) -> dict[str, int]:
    if response.error_code:
        assert response.topics == []
        return {"group": response.error_code}
    return {
        f"{topic.name}-{row.partition_index}": row.error_code
        for topic in response.topics
        for row in topic.partitions
    }


def test_offsets_of_a_group_without_members_go_and_stay_away() -> None:
    group = broker()

    assert delete(group, "old", t=[0], other=[0, 1]) == {"t-0": 0, "other-0": 0, "other-1": 0}
    assert committed(group, "old") == ["t-1"]
    assert committed(group.restarted(), "old") == ["t-1"]


def test_a_partition_that_does_not_exist_is_told_beside_the_others() -> None:
    group = broker()

    assert delete(group, "old", t=[0, 0, 99], nosuch=[0], other=[]) == {
        "t-0": ErrorCode.NONE,
        "t-99": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "nosuch-0": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


async def test_others_are_answered_while_many_offsets_are_asked_for() -> None:
    group, count = broker(), 5_000
    asked = request("old", t=[0], nosuch=list(range(count)))

    answer, turns = await counting_turns(GroupCaller(group).answer(asked, 0))

    found = codes(answer)
    assert (found.pop("t-0"), len(found)) == (ErrorCode.NONE, count)
    assert turns > count // ENTRIES
    assert committed(group, "old") == ["other-0", "other-1", "t-1"]


def test_what_was_never_committed_is_as_good_as_gone() -> None:
    group = broker()
    written = len(group.log().batches())

    assert delete(group, "old", t=[3]) == {"t-3": ErrorCode.NONE}
    assert len(group.log().batches()) == written


def test_with_its_last_offset_a_group_without_members_goes() -> None:
    group = broker()

    delete(group, "old", t=[0, 1], other=[0, 1])

    assert group.groups.describe_group("old")[0] is ErrorCode.GROUP_ID_NOT_FOUND
    assert delete(group, "old", t=[0]) == {"group": ErrorCode.GROUP_ID_NOT_FOUND}


def test_live_consumers_keep_the_offsets_of_topics_they_follow() -> None:
    group = broker()

    assert delete(group, "live", t=[0], other=[0]) == {
        "t-0": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        "other-0": ErrorCode.NONE,
    }
    assert committed(group, "live") == ["other-1", "t-0", "t-1"]


def test_a_live_group_whose_topics_are_not_known_keeps_all() -> None:
    group = GroupBroker()
    group.metadata.update(metadata_of({OTHER: 2}))
    unreadable = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"?")
    group.groups.join_group(
        JoinGroupRequest(
            group_id="live",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[unreadable],
        ),
        Caller(client_id="c", client_host="/127.0.0.1", api_version=3),
    )

    assert delete(group, "live", other=[0]) == {"other-0": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}


@pytest.mark.parametrize("topics", [{"t": [0]}, {}])
def test_a_live_group_of_another_kind_is_refused_as_a_whole(topics: dict[str, list[int]]) -> None:
    group = GroupBroker()
    group.stable_member("live", protocol_type="connect")

    assert delete(group, "live", **topics) == {"group": ErrorCode.NON_EMPTY_GROUP}


@pytest.mark.parametrize(("group_id", "code"), [
    ("no-such", ErrorCode.GROUP_ID_NOT_FOUND), ("", ErrorCode.INVALID_GROUP_ID),
])  # fmt: skip
def test_a_group_that_is_not_there_is_refused_whatever_is_asked(
    group_id: str, code: ErrorCode
) -> None:
    assert delete(broker(), group_id, t=[0], nosuch=[0]) == {"group": code}


def test_a_broker_that_does_not_lead_the_group_says_so() -> None:
    group = broker()
    group.resign()

    assert delete(group, "old", t=[0]) == {"group": ErrorCode.NOT_COORDINATOR}


def test_what_the_log_refuses_stays() -> None:
    group = broker()
    group.replicas.error = ErrorCode.NOT_ENOUGH_REPLICAS

    assert delete(group, "old", t=[0]) == {"t-0": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert "t-0" in committed(group, "old")


def test_rights_are_asked_for_of_the_group_and_of_each_topic() -> None:
    caller = GroupCaller(broker())
    services = caller.services
    caller.services = services_without(
        services, (AclOperation.READ, AclResource(AclResourceType.TOPIC, OTHER))
    )
    by_topic = codes(caller.through_stages(request("old", t=[0], other=[0]), 0))
    caller.services = services_without(
        services, (AclOperation.DELETE, AclResource(AclResourceType.GROUP, "old"))
    )
    by_group = codes(caller.through_stages(request("old", t=[0]), 0))

    assert by_topic == {"t-0": 0, "other-0": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert by_group == {"group": ErrorCode.GROUP_AUTHORIZATION_FAILED}
