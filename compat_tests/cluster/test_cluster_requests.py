"""What each of several brokers answers where another one is the leader, the coordinator or the
controller, and when another one is dead.

The questions and their numbers are those of a table of answers of two Apache Kafka 3.9.2 brokers;
`--target kafka` puts them to Apache Kafka 3.9.2 again. kbroker answers the same, except that it
forwards to the controller what Apache Kafka in ZooKeeper mode refuses with NOT_CONTROLLER.

Reassignments, features and what needs a second replica (8, 9, 16, 22-24, 41-43, 45-47, 51, 54,
56-58) are in `test_cluster_two_brokers`. Without tests: quotas, SCRAM users, ACLs, DescribeProducers
and transactions, which are not served (10-12, 28, 36-38).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from compat_tests.cluster.processes import Cluster
from compat_tests.running.waiting import until
from compat_tests.wire.group_member import Member
from compat_tests.wire.record_bytes import batch
from compat_tests.wire.wire_client import (
    CREATE_PARTITIONS,
    DELETE_GROUPS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    HEARTBEAT,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LEAVE_GROUP,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    WireClient,
    code,
)

ELECT_LEADERS, OFFSET_FOR_LEADER_EPOCH = 43, 23
TOPIC, BROKER = 2, 4
SET = 0
NOT_LEADER = "6 NOT_LEADER_OR_FOLLOWER"
NOT_COORDINATOR = "16 NOT_COORDINATOR"
Either = Callable[[str, str], str]


@dataclass
class Two:
    """The controller and another broker, with a connection to each."""

    cluster: Cluster
    controller: int
    other: int
    at_controller: WireClient
    at_other: WireClient


@pytest.fixture
def two(cluster: Cluster) -> Iterator[Two]:
    controller = cluster.controller_id()
    other = next(number for number in cluster.ids if number != controller)
    with cluster.wire(controller) as first, cluster.wire(other) as second:
        yield Two(cluster, controller, other, first, second)


def wanted(topic: str, **values: Any) -> dict[str, Any]:
    return {"name": topic, "num_partitions": 1, "replication_factor": 1, **values}


def assigned(topic: str, *replicas: list[int]) -> dict[str, Any]:
    rows = [{"partition_index": n, "broker_ids": ids} for n, ids in enumerate(replicas)]
    return wanted(topic, num_partitions=-1, replication_factor=-1, assignments=rows)


def fetched(wire: WireClient, topic: str, version: int = 11) -> str:
    part = wire.fetch(topic, 0, version)
    records = len(part.records or b"")
    text = f"{code(part.error_code)} hw={part.high_watermark} records={records}"
    return f"{text} preferred_read_replica={getattr(part, 'preferred_read_replica', None)}"


# ---- the controller's work, asked of another broker


def test_every_broker_names_the_same_controller(cluster: Cluster) -> None:  # 1
    controller = cluster.controller_id()

    for number in cluster.ids:
        with cluster.wire(number) as wire:
            assert [wire.call(METADATA, 8, topics=[]).controller_id for _ in range(6)] == [
                controller
            ] * 6


def test_topics_are_created_grown_and_deleted_through_any_broker(
    two: Two, topic: str, either: Either
) -> None:  # 2, 5, 6
    done = either("0", "41 NOT_CONTROLLER")
    created = two.at_other.create_topics(assigned(topic, [two.other]))
    if done != "0":
        two.cluster.create_topic(topic, two.other)
    growth = {"name": topic, "count": 2, "assignments": None}
    grown = two.at_other.call(CREATE_PARTITIONS, 1, topics=[growth], timeout=20_000)
    partitions = two.cluster.tree.assignment(topic) or {}
    deleted = two.at_other.call(DELETE_TOPICS, 5, topic_names=[topic], timeout=20_000)

    assert [c.partition(" (")[0] for c in created] == [done]
    assert code(grown.results[0].error_code) == done
    assert len(partitions) == (2 if done == "0" else 1)
    assert code(deleted.responses[0].error_code) == done
    if done == "0":
        until(lambda: topic not in two.cluster.tree.topics(), "the topic is gone")


def test_creation_is_refused_through_any_broker_with_the_same_words(
    two: Two, topic: str, either: Either
) -> None:  # 2
    two.cluster.create_topic(topic, two.controller)

    exists = f"36 TOPIC_ALREADY_EXISTS (Topic '{topic}' already exists.)"
    assert two.at_controller.create_topics(wanted(topic)) == [exists]
    assert two.at_other.create_topics(wanted(topic)) == [either(exists, "41 NOT_CONTROLLER")]


def test_leaders_are_elected_through_any_broker(two: Two, topic: str, either: Either) -> None:  # 7
    two.cluster.create_topic(topic, two.other)
    partitions = [{"topic": topic, "partitions": [0]}]

    answer = two.at_other.call(
        ELECT_LEADERS, 1, election_type=0, topic_partitions=partitions, timeout=10_000
    )

    assert code(answer.error_code) == "0"
    results = answer.replica_election_results[0].partition_result
    assert [code(r.error_code) for r in results] == [
        either("84 ELECTION_NOT_NEEDED", "41 NOT_CONTROLLER")
    ]


def test_settings_of_a_topic_are_changed_at_any_broker_and_shown_by_all(
    two: Two, topic: str
) -> None:  # 13
    two.cluster.create_topic(topic, two.controller)

    answer = two.at_other.call(
        INCREMENTAL_ALTER_CONFIGS, 1,
        resources=[{"resource_type": TOPIC, "resource_name": topic, "configs": [
            {"name": "retention.ms", "config_operation": SET, "value": "123456789"}]}],
    )  # fmt: skip

    assert code(answer.responses[0].error_code) == "0"
    assert two.cluster.tree.config("topics", topic) == {"retention.ms": "123456789"}
    for number in two.cluster.ids:
        until(lambda n=number: retention(two.cluster, n, topic) == "123456789", f"at {number}")


def retention(cluster: Cluster, broker_id: int, topic: str) -> str:
    asked = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": ["retention.ms"]}
    with cluster.wire(broker_id) as wire:
        answer = wire.call(DESCRIBE_CONFIGS, 4, resources=[asked])
    return str(answer.results[0].configs[0].value)


def test_another_brokers_settings_are_refused(two: Two) -> None:  # 14, 15
    a, b = two.controller, two.other
    altered = two.at_controller.call(
        INCREMENTAL_ALTER_CONFIGS, 1,
        resources=[{"resource_type": BROKER, "resource_name": str(b), "configs": [
            {"name": "log.cleaner.threads", "config_operation": SET, "value": "2"}]}],
    ).responses[0]  # fmt: skip
    asked = {"resource_type": BROKER, "resource_name": str(b), "configuration_keys": None}
    described = two.at_controller.call(DESCRIBE_CONFIGS, 4, resources=[asked]).results[0]

    assert code(altered.error_code, altered.error_message) == (
        f"42 INVALID_REQUEST (Unexpected broker id, expected {a}, but received {b})"
    )
    assert code(described.error_code, described.error_message) == (
        f"42 INVALID_REQUEST (Unexpected broker id, expected {a} or empty string, but received {b})"
    )


def test_replica_lists_of_different_length_are_refused(two: Two, topic: str) -> None:  # 40
    both, one = [two.controller, two.other], [two.other]

    assert two.at_controller.create_topics(assigned(topic, both, one)) == [
        "39 INVALID_REPLICA_ASSIGNMENT (All partitions should have the same number of replicas)"
    ]


# ---- the leader's work, asked of another broker


def test_records_are_written_and_read_at_their_leader_only(two: Two, topic: str) -> None:  # 17-21
    two.cluster.create_topic(topic, two.controller)
    refused = f"{NOT_LEADER}; base_offset=-1; log_append_time=-1; log_start=-1"
    nothing = f"{NOT_LEADER} hw=-1 records=0 preferred_read_replica="

    assert two.at_other.produce(topic, batch()) == refused
    assert two.at_other.produce(topic, batch(), 10) == refused
    assert fetched(two.at_other, topic, 11) == f"{nothing}-1"
    assert fetched(two.at_other, topic, 10) == f"{nothing}None"
    assert two.at_controller.produce(topic, batch()).startswith("0; base_offset=0;")
    assert fetched(two.at_controller, topic).startswith("0 hw=1 ")


def test_a_refused_producer_is_told_the_leader_and_its_address(two: Two, topic: str) -> None:  # 18
    two.cluster.create_topic(topic, two.controller)

    answer = two.at_other.call(
        0, 10, acks=-1, timeout=10_000,
        topic_data=[{"name": topic, "partition_data": [{"index": 0, "records": batch()}]}],
    )  # fmt: skip

    leader = answer.responses[0].partition_responses[0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (two.controller, 0)
    assert [f"{n.host}:{n.port}" for n in answer.node_endpoints] == [
        two.cluster.address(two.controller)
    ]


def test_offsets_are_looked_up_and_records_deleted_at_the_leader_only(
    two: Two, topic: str
) -> None:  # 25-27
    two.cluster.create_topic(topic, two.controller)

    rows = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 0}]}]
    deleted = two.at_other.call(DELETE_RECORDS, 1, topics=rows, timeout=10_000)

    epochs = [{"topic": topic, "partitions": [{"partition": 0, "leader_epoch": 0}]}]
    ends = {wire: wire.call(OFFSET_FOR_LEADER_EPOCH, 3, replica_id=-1, topics=epochs)
            for wire in (two.at_controller, two.at_other)}  # fmt: skip

    assert [code(answer.topics[0].partitions[0].error_code) for answer in ends.values()] == [
        "0", NOT_LEADER,
    ]  # fmt: skip
    assert two.at_other.list_offsets(topic, -1).startswith(f"{NOT_LEADER} ")
    assert code(deleted.topics[0].partitions[0].error_code) == NOT_LEADER


# ---- the coordinator's work, asked of another broker


@pytest.fixture
def away(cluster: Cluster, group: str) -> Iterator[WireClient]:
    """A connection to a broker that does not coordinate `group`."""
    coordinator = coordinator_of(cluster, group)
    with cluster.wire(next(n for n in cluster.ids if n != coordinator)) as wire:
        yield wire


def coordinator_of(cluster: Cluster, group: str) -> int:
    with cluster.wire(cluster.controller_id()) as wire:

        def asked() -> Any:
            answer = wire.call(FIND_COORDINATOR, 1, key=group, key_type=0)
            return answer if answer.error_code == 0 else None

        found = until(asked, f"a coordinator of {group}")
    with cluster.wire(found.node_id) as wire:
        wire.wait_for_coordinator(group)
    return int(found.node_id)


def test_a_group_is_served_by_its_coordinator_only(
    cluster: Cluster, away: WireClient, group: str, topic: str
) -> None:  # 29-35
    cluster.create_topic(topic, cluster.controller_id())
    member = Member(away, group)
    identity = {"group_id": group, "generation_id": 1, "member_id": "x"}
    commit = [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    asked = [{"name": topic, "partition_indexes": [0]}]

    joined = away.call(JOIN_GROUP, 5, **member.join_fields())
    beat = away.call(HEARTBEAT, 3, **identity)
    committed = away.call(
        OFFSET_COMMIT, 7, group_id=group, generation_id_or_member_epoch=-1, topics=commit
    )
    offsets = away.call(OFFSET_FETCH, 7, group_id=group, topics=asked)
    offsets_1 = away.call(OFFSET_FETCH, 1, group_id=group, topics=asked)
    described = away.call(DESCRIBE_GROUPS, 5, groups=[group]).groups[0]
    deleted = away.call(DELETE_GROUPS, 1, groups_names=[group])
    left = away.call(LEAVE_GROUP, 3, group_id=group, members=[{"member_id": "x"}])

    assert code(joined.error_code) == NOT_COORDINATOR
    assert code(beat.error_code) == NOT_COORDINATOR
    assert code(committed.topics[0].partitions[0].error_code) == NOT_COORDINATOR
    assert (code(offsets.error_code), offsets.topics) == (NOT_COORDINATOR, ())
    assert code(offsets_1.topics[0].partitions[0].error_code) == NOT_COORDINATOR
    assert (code(described.error_code), described.group_state) == (NOT_COORDINATOR, "")
    assert code(deleted.results[0].error_code) == NOT_COORDINATOR
    assert (code(left.error_code), left.members) == (NOT_COORDINATOR, ())


def test_every_broker_draws_producer_ids_from_blocks_of_its_own(cluster: Cluster) -> None:  # 39
    firsts = [producer_id(cluster, number) for number in cluster.ids]

    assert len({first // 1_000 for first in firsts}) == len(cluster.ids)
    for number, first in zip(cluster.ids, firsts, strict=True):
        assert first < producer_id(cluster, number) < first + 1_000


def producer_id(cluster: Cluster, broker_id: int) -> int:
    with cluster.wire(broker_id) as wire:

        def asked() -> Any:
            answer = wire.call(INIT_PRODUCER_ID, 1, transactional_id=None)
            assert answer.error_code in (0, 14), code(answer.error_code)
            return answer if answer.error_code == 0 else None

        return int(until(asked, "a producer id").producer_id)


# ---- one broker dead


@pytest.fixture
def dead(two: Two, topic: str) -> Iterator[int]:
    """The other broker, killed; it has the only replica of `topic`."""
    two.cluster.create_topic(topic, two.other)
    two.cluster.kill(two.other)
    two.cluster.wait_for_leaders(topic, {0: -1})
    yield two.other
    two.cluster.heal()


def test_what_only_a_dead_broker_has_is_answered_so_that_clients_retry(
    two: Two, dead: int, topic: str, either: Either
) -> None:  # 44, 48-50, 52, 53, 55
    new = two.at_controller.metadata(topic, 9).partitions[0]
    old = two.at_controller.metadata(topic, 0).partitions[0]
    brokers = two.at_controller.call(METADATA, 9, topics=[]).brokers

    assert dead not in {b.node_id for b in brokers}
    assert (code(new.error_code), new.leader_id, new.leader_epoch) == (
        "5 LEADER_NOT_AVAILABLE", -1, 1
    )  # fmt: skip
    assert (new.replica_nodes, new.isr_nodes, new.offline_replicas) == ((dead,), (dead,), (dead,))
    assert (code(old.error_code), old.leader_id) == ("5 LEADER_NOT_AVAILABLE", -1)
    assert (old.replica_nodes, old.isr_nodes) == ((), ())
    assert two.at_controller.produce(topic, batch()).startswith(NOT_LEADER)
    assert fetched(two.at_controller, topic).startswith(f"{NOT_LEADER} hw=-1 records=0")
    assert two.at_controller.list_offsets(topic, -1).startswith(NOT_LEADER)
    assert two.at_controller.create_topics(wanted(f"{topic}-3", replication_factor=3)) == [
        "38 INVALID_REPLICATION_FACTOR (Replication factor: 3 larger than available brokers: 2.)"
    ]
    (refused,) = two.at_controller.create_topics(assigned(f"{topic}-d", [dead]), timeout=500)
    assert refused.startswith("39 INVALID_REPLICA_ASSIGNMENT")  # Kafka 3.9: 7, and a dead topic
    coordinators = {coordinator_told(two.at_controller, f"{topic}-{n}") for n in range(24)}
    assert coordinators <= {"0", "15 COORDINATOR_NOT_AVAILABLE"}
    assert "0" in coordinators


def coordinator_told(wire: WireClient, group: str) -> str:
    return code(wire.call(FIND_COORDINATOR, 1, key=group, key_type=0).error_code)


def test_a_broker_that_comes_back_leads_its_partitions_again(
    two: Two, dead: int, topic: str
) -> None:  # 44
    two.cluster.start(dead)

    two.cluster.wait_for_leaders(topic, {0: dead})
    state = two.cluster.tree.partition_state(topic, 0)
    assert state is not None
    assert (state.leader_epoch, state.isr) == (2, (dead,))
    with two.cluster.wire(dead) as wire:
        assert wire.produce(topic, batch()).startswith("0; base_offset=0;")


def test_racks_of_some_brokers_only_do_not_hinder_creation(
    two: Two, topic: str, either: Either
) -> None:  # 3, 4
    two.cluster.set_up(two.other, broker_rack="r1")
    two.cluster.restart(two.other)
    until(lambda: two.cluster.tree.broker_ids() == two.cluster.ids, "all registered")

    with two.cluster.wire(two.controller) as wire:
        created = wire.create_topics(wanted(topic))
        auto = wire.metadata(f"{topic}-auto", auto_create=True)

    racks = either("0", "-1 UNKNOWN_SERVER_ERROR")
    assert [c.partition(" (")[0] for c in created] == [racks]
    assert code(auto.error_code) in {racks, either("5 LEADER_NOT_AVAILABLE", racks)}
