"""Topics are refused with Kafka 3.9's codes and sentences,
and created so that they are usable at once.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from kbroker.admin import topic_admin
from kbroker.admin.new_topics import NewTopics, TopicResult
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.turns import turn
from kbroker.zk.tree import OpResult, TreeUnavailableError
from tests.fakes.clusters.controller_cluster import ControllerCluster, FakeBroker
from tests.fakes.running.loop_turns import counting_turns

CreatableTopic = CreateTopicsRequest.CreatableTopic
NAME_RULE = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"


@pytest.fixture
def config() -> KafkaConfig:
    return KafkaConfig.for_profile("dev", {"num.partitions": "1"})


@pytest.fixture
def broker(cluster: ControllerCluster) -> FakeBroker:
    return cluster.brokers[0]


def topic(
    name: str,
    partitions: int = -1,
    factor: int = -1,
    configs: list[tuple[str, str | None]] | None = None,
    assignments: dict[int, list[int]] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
            for key, value in configs or []
        ],
        assignments=[
            CreateTopicsRequest.CreatableReplicaAssignment(partition_index=p, broker_ids=b)
            for p, b in (assignments or {}).items()
        ],
    )


async def create(broker: FakeBroker, *topics: CreatableTopic) -> list[TopicResult]:
    return await broker.topics.create_topics(list(topics), 1000, False)


REFUSALS = [
    (topic("a b"), 17, f"Topic name is invalid: 'a b' {NAME_RULE}"),
    (topic("."), 17, "Topic name is invalid: '.' is not allowed"),
    (topic(".."), 17, "Topic name is invalid: '..' is not allowed"),
    (topic(""), 17, "Topic name is invalid: the empty string is not allowed"),
    (
        topic("X" * 250),
        17,
        f"Topic name is invalid: the length of '{'X' * 250}' "
        "is longer than the max allowed length 249",
    ),
    (topic("a/b"), 17, f"Topic name is invalid: 'a/b' {NAME_RULE}"),
    (topic("é"), 17, f"Topic name is invalid: 'é' {NAME_RULE}"),
    (topic("a_b"), 17, "Topic 'a_b' collides with existing topics: a.b"),
    (topic("T"), 36, "Topic 'T' already exists."),
    (topic("n", 1, 3), 38, "Replication factor: 3 larger than available brokers: 1."),
    (topic("n", 1, 0), 38, "Replication factor must be larger than 0."),
    (topic("n", 1, -2), 38, "Replication factor must be larger than 0."),
    (topic("n", 0, 1), 37, "Number of partitions must be larger than 0."),
    (topic("n", -2, 1), 37, "Number of partitions must be larger than 0."),
    (
        topic("n", configs=[("no.such.config", "1")]),
        40,
        "Unknown topic config name: no.such.config",
    ),
    (
        topic("n", configs=[("retention.ms", "abc")]),
        40,
        "Invalid value abc for configuration retention.ms: Not a number of type LONG",
    ),
    (
        topic("n", configs=[("retention.ms", None)]),
        40,
        "Null value not supported for topic configs: retention.ms",
    ),
    (
        topic("n", configs=[("cleanup.policy", "foo")]),
        40,
        "Invalid value foo for configuration cleanup.policy: "
        "String must be one of: compact, delete",
    ),
    (
        topic("n", configs=[("segment.bytes", "1")]),
        40,
        "Invalid value 1 for configuration segment.bytes: Value must be at least 14",
    ),
    (
        topic("n", 1, -1, assignments={0: [0]}),
        42,
        "Both numPartitions or replicationFactor and replicasAssignments were set. "
        "Both cannot be used at the same time.",
    ),
    (
        topic("n", assignments={1: [0]}),
        39,
        "partitions should be a consecutive 0-based integer sequence",
    ),
    (
        topic("n", assignments={0: [0, 0]}),
        39,
        "Duplicate replica assignment found: HashMap(0 -> ArrayBuffer(0, 0))",
    ),
    (
        topic("n", assignments={0: [0, 1], 1: [1]}),
        39,
        "All partitions should have the same number of replicas",
    ),
    (
        topic("n", assignments={0: [0], 1: [99]}),
        39,
        "The manual partition assignment includes broker 99, but no such broker is registered.",
    ),
    (
        topic("n", assignments={0: [-1]}),
        39,
        "The manual partition assignment includes broker -1, but no such broker is registered.",
    ),
    (
        topic("n", assignments={0: [], 1: []}),
        39,
        "The manual partition assignment includes an empty replica list.",
    ),
]


@pytest.mark.parametrize(("wanted", "code", "message"), REFUSALS)
async def test_a_topic_that_cannot_be_is_refused_as_kafka_does(
    wanted: CreatableTopic, code: int, message: str, broker: FakeBroker
) -> None:
    await create(broker, topic("T"), topic("a.b"))
    before = broker.cluster.tree.zxid
    (result,) = await create(broker, wanted)
    assert (result.error, result.message) == (code, message)
    assert broker.cluster.tree.zxid == before


ACCEPTED = [
    topic("Y" * 249),
    topic("__mine"),
    topic("n", configs=[("retention.ms", "1"), ("retention.ms", "2")]),
    topic("n", configs=[("message.format.version", "2.8")]),
    topic("n", configs=[("segment.bytes", "100000")]),
]


@pytest.mark.parametrize("wanted", ACCEPTED)
async def test_a_topic_that_kafka_takes_is_created(
    wanted: CreatableTopic, broker: FakeBroker
) -> None:
    (result,) = await create(broker, wanted)
    state = broker.metadata.partition_state(TopicPartition(wanted.name, 0))
    assert (result.error, result.num_partitions, result.replication_factor) == (0, 1, 1)
    assert state is not None
    assert state.leader == 0


async def test_the_answer_holds_36_settings_with_their_sources_and_the_topics_id(
    broker: FakeBroker,
) -> None:
    (result,) = await create(broker, topic("T", 2, 1, [("retention.ms", "1000")]))
    by_name = {entry.name: entry for entry in result.configs}
    assert len(result.configs) == 36
    assert (by_name["retention.ms"].value, by_name["retention.ms"].source) == ("1000", 1)
    assert by_name["cleanup.policy"].source == 5
    assert result.topic_id == broker.metadata.topic_id("T")


async def test_one_bad_topic_does_not_spoil_the_others_and_a_name_given_twice_is_refused(
    broker: FakeBroker,
) -> None:
    results = await create(broker, topic("good"), topic("a b"), topic("D"), topic("D"))
    assert [r.error for r in results] == [0, 17, 42, 42]
    assert results[3].message == "Found multiple entries for this topic."
    assert broker.metadata.topics() == ["good"]


async def test_a_colliding_name_is_not_created_on_first_use_either(broker: FakeBroker) -> None:
    await broker.topics.create_topics([topic("a.b")], 1000, False)

    for _ in range(2):
        assert await broker.topics.auto_create(["a_b"]) == {
            "a_b": ErrorCode.INVALID_TOPIC_EXCEPTION
        }

    assert not broker.metadata.contains_topic("a_b")


async def test_names_of_one_request_collide_too(broker: FakeBroker) -> None:
    results = await create(broker, topic("a.b"), topic("a_b"), topic("a-b"))
    assert [r.error for r in results] == [0, 17, 0]


async def test_others_get_their_turn_while_many_topics_are_checked(broker: FakeBroker) -> None:
    wanted = [topic(f"t{n}") for n in range(200)]

    _, turns = await counting_turns(broker.topics.create_topics(wanted, 1000, True))

    assert turns > 8


async def test_others_get_their_turn_after_a_topic_of_many_partitions(broker: FakeBroker) -> None:
    topics = [topic(f"t{number}", 10_000, 1) for number in range(4)]

    results, turns = await counting_turns(broker.topics.create_topics(topics, 1000, True))

    assert [result.num_partitions for result in results] == [10_000] * 4
    assert turns > 4


async def test_all_topics_of_a_request_have_so_many_partitions_and_no_more(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_admin, "MAX_PARTITIONS_IN_ALL", 30)
    topics = [
        topic("a", 20, 1),
        topic("never", 2**31 - 1, 1),
        topic("b", assignments={p: [0] for p in range(10)}),
        topic("c"),
    ]

    results = await create(broker, *topics)

    assert [(r.name, r.error) for r in results] == [
        ("a", ErrorCode.NONE),
        ("never", ErrorCode.POLICY_VIOLATION),
        ("b", ErrorCode.NONE),
        ("c", ErrorCode.POLICY_VIOLATION),
    ]
    assert results[3].message == "Excessively large number of partitions per request."


async def test_a_topic_gets_10_000_partitions_and_1_000_settings_at_once_and_no_more(
    broker: FakeBroker,
) -> None:
    await create(broker, topic("T", 1))
    assigned = topic("assigned", assignments={p: [0] for p in range(10_001)})
    configured = topic("configured", configs=[(f"s{n}", "1") for n in range(1_001)])

    results = [
        *await create(broker, assigned, configured),
        *await broker.topics.create_partitions([partitions("T", 10_002, [[0]] * 10_001)], 1, True),
    ]

    assert [(result.error, result.message) for result in results] == [
        (ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."),
        (ErrorCode.POLICY_VIOLATION, "One resource has 1,000 settings at most."),
        (ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."),
    ]


async def test_requests_for_very_many_partitions_are_checked_one_after_the_other(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way = most = 0
    look = NewTopics.look

    async def noted(*args: Any, **kwargs: Any) -> NewTopics:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        new = await look(*args, **kwargs)
        await turn()
        under_way -= 1
        return new

    monkeypatch.setattr(NewTopics, "look", noted)
    large = [topic("a", 10_000, 1), topic("b", 10_000, 1)]

    await asyncio.gather(*(broker.topics.create_topics(large, 1000, True) for _ in range(3)))
    assert most == 1
    await asyncio.gather(*(broker.topics.create_topics(large[:1], 1000, True) for _ in range(3)))
    assert most == 3


async def test_validate_only_answers_the_layout_and_creates_nothing(broker: FakeBroker) -> None:
    before = broker.cluster.tree.zxid
    (result,) = await broker.topics.create_topics([topic("T", 3, 1)], 1000, True)
    assert (result.error, result.num_partitions, len(result.configs)) == (0, 3, 36)
    assert broker.cluster.tree.zxid == before


async def test_no_time_to_wait_answers_timed_out_and_still_creates(broker: FakeBroker) -> None:
    (result,) = await broker.topics.create_topics([topic("T")], 0, False)
    await broker.cluster.settle()
    assert (result.error, result.message) == (ErrorCode.REQUEST_TIMED_OUT, None)
    assert broker.metadata.contains_topic("T")


async def test_automatic_creation_is_shared_and_returns_when_usable(broker: FakeBroker) -> None:
    before = broker.cluster.tree.zxid
    outcomes = await asyncio.gather(*(broker.topics.auto_create(["T"]) for _ in range(5)))
    created = broker.cluster.tree.zxid - before
    assert outcomes == [{"T": ErrorCode.NONE}] * 5
    assert created == 4  # overrides and assignment, partitions, partition, state
    assert await broker.topics.auto_create(["T", "a b"]) == {
        "T": ErrorCode.NONE,
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


async def test_of_many_topics_a_few_are_begun_in_each_turn(broker: FakeBroker) -> None:
    names = [f"t{number}" for number in range(200)]
    creating = asyncio.create_task(broker.topics.auto_create(names))
    there, most = 0, 0
    while not creating.done():
        await asyncio.sleep(0)
        before, there = there, len(await broker.zk.existing_topics(names[:60]))
        most = max(most, there - before)

    assert await creating == dict.fromkeys(names, ErrorCode.NONE)
    assert 0 < most <= 30


async def test_automatic_creation_is_put_off_while_the_tree_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, broker: FakeBroker
) -> None:
    async def fail(_ops: object) -> list[OpResult]:
        raise TreeUnavailableError("/brokers/topics/T")

    caplog.set_level(logging.CRITICAL)
    with monkeypatch.context() as patch:
        patch.setattr(broker.session, "multi_all", fail)
        outcome = await broker.topics.auto_create(["T"])
    assert outcome == {"T": ErrorCode.LEADER_NOT_AVAILABLE}
    assert await broker.topics.auto_create(["T"]) == {"T": ErrorCode.NONE}


async def test_nothing_is_created_by_the_way_once_the_broker_stops(broker: FakeBroker) -> None:
    before = broker.cluster.tree.zxid

    await broker.topics.close()

    assert await broker.topics.auto_create(["T"]) == {"T": ErrorCode.LEADER_NOT_AVAILABLE}
    assert broker.cluster.tree.zxid == before


async def test_the_groups_topic_gets_its_own_layout_and_overrides(broker: FakeBroker) -> None:
    await broker.topics.auto_create(["__consumer_offsets"])
    overrides = await broker.configs.topic_overrides("__consumer_offsets")
    group = broker.cluster.config.group
    assert broker.metadata.partition_count("__consumer_offsets") == (
        group.offsets_topic_num_partitions
    )
    assert overrides == {
        "compression.type": "producer",
        "cleanup.policy": "compact",
        "segment.bytes": str(group.offsets_topic_segment_bytes),
    }


async def test_the_operator_hears_once_that_the_groups_topic_has_fewer_replicas_than_its_setting(
    caplog: pytest.LogCaptureFixture, broker: FakeBroker
) -> None:
    broker.cluster.config = KafkaConfig.for_profile(
        "dev", {"offsets.topic.replication.factor": "3"}
    )
    for _ in range(2):
        assert await broker.topics.auto_create(["__consumer_offsets"]) == {
            "__consumer_offsets": ErrorCode.NONE
        }

    assert caplog.text.count("not 3 (offsets.topic.replication.factor)") == 1


async def test_news_of_one_topic_is_no_reason_to_look_at_all_that_are_waited_for(
    monkeypatch: pytest.MonkeyPatch, broker: FakeBroker
) -> None:
    looked_at: list[TopicPartition] = []
    look = broker.metadata.partition_state

    def count(partition: TopicPartition) -> object:
        looked_at.append(partition)
        return look(partition)

    monkeypatch.setattr(broker.metadata, "partition_state", count)
    results = await create(broker, *(topic(f"t{number}") for number in range(300)))

    assert {result.error for result in results} == {ErrorCode.NONE}
    assert len(looked_at) <= 2 * len(results) + 20


async def test_deleting_returns_when_the_topic_is_gone_and_twice_is_fine(
    broker: FakeBroker,
) -> None:
    await create(broker, topic("T"))
    results = await broker.topics.delete_topics(["T", "T", "no-such"], 1000)
    await broker.cluster.settle()
    assert [r.error for r in results] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert not broker.metadata.contains_topic("T")
    assert not [p for p, _, _ in broker.cluster.tree.dump() if p.endswith("/T")]
    assert [r.error for r in await create(broker, topic("T"))] == [0]


def partitions(
    name: str, count: int, assignments: list[list[int]] | None = None
) -> CreatePartitionsRequest.CreatePartitionsTopic:
    given = None
    if assignments is not None:
        given = [
            CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=b) for b in assignments
        ]
    return CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=given)


GROWTH_REFUSALS = [
    (
        partitions("T", 2),
        37,
        "Topic currently has 3 partitions, which is higher than the requested 2.",
    ),
    (partitions("T", 3), 37, "Topic already has 3 partitions."),
    (
        partitions("T", 0),
        37,
        "Topic currently has 3 partitions, which is higher than the requested 0.",
    ),
    (partitions("no", 2), 3, "The topic 'no' does not exist."),
    (
        partitions("T", 5, [[0]]),
        39,
        "Increasing the number of partitions by 2 but 1 assignments provided.",
    ),
    (partitions("T", 4, [[99]]), 39, "Unknown broker(s) in replica assignment: 99."),
]


@pytest.mark.parametrize(("wanted", "code", "message"), GROWTH_REFUSALS)
async def test_partitions_that_cannot_be_added_are_refused_as_kafka_does(
    wanted: CreatePartitionsRequest.CreatePartitionsTopic,
    code: int,
    message: str,
    broker: FakeBroker,
) -> None:
    await create(broker, topic("T", 3))
    (result,) = await broker.topics.create_partitions([wanted], 1000, False)
    assert (result.error, result.message) == (code, message)


async def test_added_partitions_are_led_when_the_call_returns(broker: FakeBroker) -> None:
    await create(broker, topic("T", 1))
    (checked,) = await broker.topics.create_partitions([partitions("T", 4)], 1000, True)
    assert (checked.error, broker.metadata.partition_count("T")) == (0, 1)
    (result,) = await broker.topics.create_partitions([partitions("T", 4)], 1000, False)
    states = broker.metadata.partition_states("T").values()
    assert result.error == ErrorCode.NONE
    assert [s.leader for s in states] == [0, 0, 0, 0]


@pytest.mark.parametrize("brokers", [3])
async def test_replicas_are_spread_over_the_brokers(broker: FakeBroker) -> None:
    await create(broker, topic("T", 6, 1))
    leaders = [s.leader for s in broker.metadata.partition_states("T").values()]
    assert sorted(leaders) == [0, 0, 1, 1, 2, 2]
