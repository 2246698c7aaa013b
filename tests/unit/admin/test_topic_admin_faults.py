"""Topics while the tree goes away, while other brokers work on them, and at the limits of a node:
nothing is half there, and clients hear what they try again on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kbroker.admin.new_topics import TopicResult
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.zk import zk_paths
from kbroker.zk.tree import (
    MAX_NODE_BYTES,
    Op,
    OpResult,
    SessionExpiredError,
    TreeError,
    TreeStorageError,
    TreeUnavailableError,
)
from tests.fakes.clusters.controller_cluster import ControllerCluster, FakeBroker

CreatableTopic = CreateTopicsRequest.CreatableTopic
GrowingTopic = CreatePartitionsRequest.CreatePartitionsTopic


@pytest.fixture
def settings() -> dict[str, str]:
    return {}


@pytest.fixture
def config(settings: dict[str, str]) -> KafkaConfig:
    return KafkaConfig.for_profile("dev", {"num.partitions": "1", **settings})


async def create(broker: FakeBroker, name: str, *, factor: int = 1, **configs: str) -> TopicResult:
    wanted = CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=factor,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )
    return (await broker.topics.create_topics([wanted], 1000, False))[0]


async def grow(broker: FakeBroker, name: str, count: int) -> TopicResult:
    wanted = GrowingTopic(name=name, count=count, assignments=None)
    return (await broker.topics.create_partitions([wanted], 1000, False))[0]


def nodes_of(cluster: ControllerCluster, name: str) -> list[str]:
    return sorted(path for path, _, _ in cluster.tree.dump() if path.endswith(f"/{name}"))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TreeUnavailableError("/x"), ErrorCode.NOT_CONTROLLER),
        (SessionExpiredError("/x"), ErrorCode.NOT_CONTROLLER),
        (TreeStorageError("disk full"), ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
async def test_a_tree_that_goes_away_in_the_middle_leaves_nothing_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
    error: TreeUnavailableError,
    code: ErrorCode,
    cluster: ControllerCluster,
) -> None:
    async def fail(*_args: object, **_options: object) -> object:
        raise error

    broker = cluster.brokers[0]
    await create(broker, "old")
    with monkeypatch.context() as patch:
        patch.setattr(broker.session, "multi_all", fail)
        patch.setattr(broker.session, "set", fail)
        patch.setattr(broker.session, "create", fail)
        created = await create(broker, "new", retention_ms="5")
        grown = await grow(broker, "old", 3)
        (deleted,) = await broker.topics.delete_topics(["old"], 1000)
    assert [created.error, grown.error, deleted.error] == [code] * 3
    assert nodes_of(cluster, "new") == []
    assert (await create(broker, "new")).error is ErrorCode.NONE
    assert await broker.configs.topic_overrides("new") == {}


async def test_overrides_left_behind_by_others_are_replaced(cluster: ControllerCluster) -> None:
    broker = cluster.brokers[0]
    await broker.session.create("/config/topics/T", b"{half made")
    assert (await create(broker, "T", retention_ms="5")).error is ErrorCode.NONE
    assert await broker.configs.topic_overrides("T") == {"retention.ms": "5"}


async def test_parents_removed_by_hand_are_made_anew(cluster: ControllerCluster) -> None:
    broker = cluster.brokers[0]
    await broker.session.delete("/config/topics")
    assert (await create(broker, "T")).error is ErrorCode.NONE


def hold_back(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Let the broker's transactions wait, after all of its looks, until the event is set."""
    go_on = asyncio.Event()
    multi_all = broker.session.multi_all

    async def wait(transactions: Sequence[Sequence[Op]]) -> list[list[OpResult] | TreeError]:
        await go_on.wait()
        return await multi_all(transactions)

    monkeypatch.setattr(broker.session, "multi_all", wait)
    return go_on


@pytest.mark.parametrize("brokers", [2])
async def test_of_two_brokers_that_create_a_topic_one_wins_and_keeps_its_settings(
    monkeypatch: pytest.MonkeyPatch, cluster: ControllerCluster
) -> None:
    first, second = cluster.brokers[0], cluster.brokers[1]
    go_on = hold_back(second, monkeypatch)
    late = asyncio.create_task(create(second, "T"))
    await asyncio.sleep(0)
    winner = await create(first, "T", cleanup_policy="compact")
    go_on.set()
    loser = await late
    assert [winner.error, loser.error] == [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS]
    assert loser.message == "Topic 'T' already exists."
    assert await first.configs.topic_overrides("T") == {"cleanup.policy": "compact"}


@pytest.mark.parametrize("brokers", [2])
async def test_a_topic_that_two_brokers_create_on_first_use_is_usable_for_both(
    monkeypatch: pytest.MonkeyPatch, cluster: ControllerCluster
) -> None:
    first, second = cluster.brokers[0], cluster.brokers[1]
    go_on = hold_back(second, monkeypatch)
    late = asyncio.create_task(second.topics.auto_create(["T"]))
    await asyncio.sleep(0)
    early = await first.topics.auto_create(["T"])
    go_on.set()
    assert [early, await late] == [{"T": ErrorCode.NONE}] * 2
    assert len(cluster.brokers[1].metadata.partition_states("T")) == 1


async def test_a_topic_is_not_usable_on_first_use_while_it_is_deleted(
    cluster: ControllerCluster,
) -> None:
    broker = cluster.brokers[0]
    await create(broker, "T")
    broker.refuse_deletion = True
    await broker.topics.delete_topics(["T"], 1)
    assert await broker.topics.auto_create(["T"]) == {"T": ErrorCode.LEADER_NOT_AVAILABLE}


@pytest.mark.parametrize("brokers", [2])
async def test_a_topic_that_changes_while_it_grows_keeps_that_change(
    monkeypatch: pytest.MonkeyPatch, cluster: ControllerCluster
) -> None:
    broker = cluster.brokers[0]
    await create(broker, "T")
    write = broker.zk.grow_topic
    others = [grow(cluster.brokers[1], "T", 2)]

    async def grow_second(*args: object) -> None:
        for other in others:
            others.clear()
            await other
        await write(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(broker.zk, "grow_topic", grow_second)
    assert (await grow(broker, "T", 4)).error is ErrorCode.NONE
    assignment = await broker.zk.topic_assignment("T")
    assert assignment is not None
    assert sorted(assignment.partitions) == [0, 1, 2, 3]
    assert (await grow(broker, "T", 3)).error is ErrorCode.INVALID_PARTITIONS


async def test_a_topic_whose_node_nobody_can_read_is_there_but_cannot_grow(
    cluster: ControllerCluster,
) -> None:
    broker = cluster.brokers[0]
    await broker.session.create("/brokers/topics/T", b'{"partitions":{"0":["0"]}}')
    assert (await create(broker, "T")).error is ErrorCode.TOPIC_ALREADY_EXISTS
    assert (await grow(broker, "T", 3)).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await create(broker, "U")).error is ErrorCode.NONE


@pytest.mark.parametrize("brokers", [3])
async def test_a_topic_has_as_many_replicas_as_are_asked_for_and_grows_with_them(
    cluster: ControllerCluster,
) -> None:
    broker = cluster.brokers[0]
    assert (await create(broker, "T", factor=3)).error is ErrorCode.NONE
    assert (await grow(broker, "T", 2)).error is ErrorCode.NONE
    for number in range(2):
        state = broker.metadata.partition_state(TopicPartition("T", number))
        assert state is not None
        assert sorted(state.replicas) == sorted(state.isr) == [0, 1, 2]


@pytest.mark.parametrize("brokers", [2])
async def test_a_factor_of_more_brokers_than_there_are_is_refused(
    cluster: ControllerCluster,
) -> None:
    refused = await create(cluster.brokers[0], "T", factor=3)
    assert refused.error is ErrorCode.INVALID_REPLICATION_FACTOR
    assert refused.message == "Replication factor: 3 larger than available brokers: 2."
    assert nodes_of(cluster, "T") == []


@pytest.mark.parametrize("brokers", [2])
@pytest.mark.parametrize("settings", [{"default.replication.factor": "3"}])
async def test_a_default_factor_of_too_many_replicas_is_told_to_the_operator_once(
    caplog: pytest.LogCaptureFixture, cluster: ControllerCluster
) -> None:
    broker = cluster.brokers[0]
    for name in ("T", "U"):
        assert await broker.topics.auto_create([name]) == {
            name: ErrorCode.INVALID_REPLICATION_FACTOR
        }

    told = [text for text in caplog.messages if "is not created" in text]
    assert [text.rpartition("See ")[2] for text in told] == ["default.replication.factor"]


@pytest.mark.parametrize("brokers", [2])
@pytest.mark.parametrize(
    "settings", [{"offsets.topic.replication.factor": "3", "zookeeper.connect": "localhost:2181"}]
)
async def test_the_groups_topic_of_a_cluster_waits_for_the_brokers_of_its_factor(
    caplog: pytest.LogCaptureFixture, cluster: ControllerCluster
) -> None:
    broker, name = cluster.brokers[0], "__consumer_offsets"
    for _ in range(2):
        assert await broker.topics.auto_create([name]) == {
            name: ErrorCode.INVALID_REPLICATION_FACTOR
        }
    told = [text for text in caplog.messages if "is not created" in text]
    assert [text.rpartition("See ")[2] for text in told] == ["offsets.topic.replication.factor"]
    assert nodes_of(cluster, name) == []

    await cluster.start(2)
    assert await broker.topics.auto_create([name]) == {name: ErrorCode.NONE}
    state = broker.metadata.partition_state(TopicPartition(name, 0))
    assert state is not None
    assert sorted(state.replicas) == [0, 1, 2]


@pytest.mark.parametrize("brokers", [2])
@pytest.mark.parametrize(
    "settings", [{"offsets.topic.replication.factor": "1", "zookeeper.connect": "localhost:2181"}]
)
async def test_a_groups_topic_of_a_cluster_with_one_replica_is_told_to_the_operator_once(
    caplog: pytest.LogCaptureFixture, cluster: ControllerCluster
) -> None:
    for broker in cluster.brokers.values():
        await broker.topics.auto_create(["__consumer_offsets"])

    told = [record for record in caplog.records if "one replica" in record.message]
    assert [record.levelname for record in told] == ["WARNING"]
    assert "offsets.topic.replication.factor" in told[0].message


@pytest.mark.parametrize("brokers", [2])
@pytest.mark.parametrize("settings", [{"default.replication.factor": "2"}])
async def test_a_topic_made_on_first_use_has_the_default_factor(
    cluster: ControllerCluster,
) -> None:
    broker = cluster.brokers[0]
    assert await broker.topics.auto_create(["T"]) == {"T": ErrorCode.NONE}
    state = broker.metadata.partition_state(TopicPartition("T", 0))
    assert state is not None
    assert sorted(state.replicas) == [0, 1]


async def test_a_topic_that_does_not_fit_into_a_node_is_refused_and_not_there(
    monkeypatch: pytest.MonkeyPatch, cluster: ControllerCluster
) -> None:
    monkeypatch.setattr("kbroker.zk.embedded.embedded_tree.MAX_NODE_BYTES", 4000)
    broker = cluster.brokers[0]
    many = CreatableTopic(name="T", num_partitions=500, replication_factor=1)
    (created,) = await broker.topics.create_topics([many], 1000, False)
    assert created.error is ErrorCode.INVALID_PARTITIONS
    assert str(created.message).startswith("Topic 'T' with 500 partitions does not fit")
    assert nodes_of(cluster, "T") == []
    assert (await create(broker, "T")).error is ErrorCode.NONE
    assert (await grow(broker, "T", 500)).error is ErrorCode.INVALID_PARTITIONS
    assert (await grow(broker, "T", 2)).error is ErrorCode.NONE


async def test_settings_that_do_not_fit_into_a_node_are_refused(cluster: ControllerCluster) -> None:
    text = ",".join(f"{number}:{number}" for number in range(MAX_NODE_BYTES // 8))
    broker = cluster.brokers[0]
    created = await create(broker, "T", follower_replication_throttled_replicas=text)
    assert created.error is ErrorCode.INVALID_CONFIG
    assert str(created.message).startswith("Topic 'T' with its settings does not fit")
    assert nodes_of(cluster, "T") == []
    assert zk_paths.topic_path("T") not in {path for path, _, _ in cluster.tree.dump()}


def wanted_topics(*names: str) -> list[CreatableTopic]:
    return [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]


async def test_topics_of_one_request_are_written_at_once_and_refused_one_by_one(
    monkeypatch: pytest.MonkeyPatch, cluster: ControllerCluster
) -> None:
    broker = cluster.brokers[0]
    await broker.session.create("/config/topics/left", b"behind")
    await create(broker, "there")
    multi_all = broker.session.multi_all
    asked: list[int] = []

    async def count(
        transactions: Sequence[Sequence[Op]],
    ) -> list[list[OpResult] | TreeError]:
        asked.append(len(transactions))
        return await multi_all(transactions)

    with monkeypatch.context() as patch:
        patch.setattr(broker.session, "multi_all", count)
        new = await broker.topics.create_topics(
            wanted_topics("a.b", "a_b", "there", "left", "c", "c", "?"), 0, False
        )
    assert [result.error for result in new] == [
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert asked[:2] == [2, 1]  # both, then the one whose overrides were there
    await cluster.settle()
    assert sorted(broker.metadata.topic_ids()) == ["a.b", "left", "there"]
    assert await broker.configs.topic_overrides("left") == {}
