"""Who is controller, and what becomes of it when sessions end or brokers fail to answer."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.controller import kafka_controller
from kbroker.controller.event_queue import EventQueue
from kbroker.controller.state_machines import events
from kbroker.controller.state_machines.events import Event
from kbroker.errors import ErrorCode
from kbroker.model import ZERO_UUID, Broker
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.zk import zk_paths
from kbroker.zk.tree import CreateOp, TreeUnavailableError, Watch
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.clusters.controller_cluster import ControllerCluster


@pytest.fixture
def brokers() -> int:
    return 0


async def create(cluster: ControllerCluster, name: str, partitions: int = 1) -> None:
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1
    )
    (result,) = await cluster.controller.topics.create_topics([topic], 1000, False)
    assert result.error == ErrorCode.NONE


async def test_the_first_broker_is_controller_and_all_know_it(cluster: ControllerCluster) -> None:
    await cluster.start(3)
    await cluster.start(1)
    assert [b.controller.is_active for b in cluster.brokers.values()] == [True, False]
    assert [b.controller.controller_id for b in cluster.brokers.values()] == [3, 3]
    assert [b.metadata.controller_id for b in cluster.brokers.values()] == [3, 3]
    assert cluster.brokers[3].controller.epoch == 1


@pytest.mark.virtual_time
async def test_a_stop_waits_no_longer_for_a_tree_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(_epoch_version: int) -> None:
        await asyncio.Event().wait()

    cluster = ControllerCluster()
    broker = await cluster.start(0)
    monkeypatch.setattr(broker.zk, "delete_controller", never)
    loop = asyncio.get_running_loop()
    begun_s = loop.time()

    await broker.controller.shutdown()

    assert loop.time() - begun_s <= 2


async def test_a_clean_stop_gives_the_seat_to_another_broker_with_a_higher_epoch(
    cluster: ControllerCluster,
) -> None:
    await cluster.start(0)
    await cluster.start(1)
    await cluster.brokers[0].controller.shutdown()
    await cluster.settle()
    assert cluster.brokers[1].controller.is_active
    assert cluster.brokers[1].controller.epoch == 2


async def test_an_expired_session_ends_the_reign(cluster: ControllerCluster) -> None:
    old = await cluster.start(0)
    await cluster.start(1)
    old.kill()
    await cluster.settle()
    assert not old.controller.is_active
    assert cluster.brokers[1].controller.is_active


async def test_a_controller_whose_epoch_was_raised_writes_nothing_with_the_old_one(
    cluster: ControllerCluster,
) -> None:
    broker = await cluster.start(0)
    raised = zk_paths.encode_controller_epoch(9)
    await broker.session.set(zk_paths.CONTROLLER_EPOCH, raised)
    await create(cluster, "t")
    await cluster.settle()
    assert broker.controller.epoch == 10  # elected anew, as nobody else wanted to be
    assert cluster.state() == [
        't-0 {"controller_epoch":10,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}'
    ]


async def test_a_broker_that_cannot_delete_keeps_the_topic_queued(
    cluster: ControllerCluster,
) -> None:
    broker = await cluster.start(0)
    broker.refuse_deletion = True
    await create(cluster, "t")
    await broker.topics.delete_topics(["t"], 1000)
    await cluster.settle()
    assert await broker.zk.topic_deletions() == ["t"]
    assert await broker.zk.existing_topics(["t"])


async def test_a_wish_to_delete_an_unknown_topic_is_cleared_away(
    cluster: ControllerCluster,
) -> None:
    broker = await cluster.start(0)
    await broker.zk.create_delete_topics(["no-such"])
    await cluster.settle()
    assert await broker.zk.topic_deletions() == []


async def test_a_new_controller_finishes_what_the_old_one_began(cluster: ControllerCluster) -> None:
    await cluster.start(0)
    await cluster.start(1)
    await create(cluster, "t", 2)
    cluster.brokers[1].refuse_deletion = True
    await cluster.brokers[0].topics.delete_topics(["t"], 1000)
    await cluster.settle()
    cluster.brokers[1].refuse_deletion = False
    await cluster.brokers[0].controller.shutdown()
    await cluster.settle()
    assert await cluster.brokers[1].zk.topics() == []


async def test_a_topic_from_before_topic_ids_gets_one(cluster: ControllerCluster) -> None:
    broker = await cluster.start(0)
    old = b'{"version":1,"partitions":{"0":[0]}}'
    await broker.session.create("/brokers/topics/old", old)
    await cluster.settle()
    assignment = await broker.zk.topic_assignment("old")
    assert assignment is not None
    assert assignment.topic_id == broker.metadata.topic_id("old")
    assert assignment.topic_id != ZERO_UUID


async def test_topics_get_no_ids_below_protocol_28(cluster: ControllerCluster) -> None:
    """A controller of Kafka would lose them again."""
    cluster.config = KafkaConfig.for_profile("dev", {"inter.broker.protocol.version": "2.7"})
    broker = await cluster.start(0)
    old = b'{"version":1,"partitions":{"0":[0]}}'
    await broker.session.create("/brokers/topics/old", old)
    await create(cluster, "new")
    await cluster.settle()
    assert broker.metadata.topic_ids() == {"old": ZERO_UUID, "new": ZERO_UUID}
    assert (await broker.session.get("/brokers/topics/old"))[0] == old
    assert (await broker.session.get("/brokers/topics/new"))[0] == (
        b'{"partitions":{"0":[0]},"adding_replicas":{},"removing_replicas":{},"version":3}'
    )

    grown = b'{"version":1,"partitions":{"0":[0],"1":[0]}}'
    await broker.session.set("/brokers/topics/old", grown)
    await cluster.settle()

    assert (await broker.session.get("/brokers/topics/old"))[0] == grown
    assert broker.metadata.partition_count("old") == 2


async def test_a_topic_that_cannot_be_read_does_not_keep_others_from_being_made(
    cluster: ControllerCluster,
) -> None:
    broker = await cluster.start(0)
    await broker.session.multi(
        (
            CreateOp("/brokers/topics/a", b'{"version":1,"partitions":{"0":[0]}}'),
            CreateOp("/brokers/topics/broken", b"no JSON"),
            CreateOp("/brokers/topics/z", b'{"version":1,"partitions":{"0":[0]}}'),
        )
    )
    await cluster.settle()
    found = [topic for topic in ("a", "broken", "z") if broker.metadata.contains_topic(topic)]

    await broker.session.set("/brokers/topics/broken", b'{"version":1,"partitions":{"0":[0]}}')
    await cluster.settle()

    assert found == ["a", "z"]
    assert broker.metadata.contains_topic("broken")


async def test_a_controller_that_cannot_take_over_gives_the_seat_up_and_tries_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, cluster: ControllerCluster
) -> None:
    monkeypatch.setattr(kafka_controller, "GIVE_UP_BACKOFF_S", 0.0)
    caplog.set_level(logging.CRITICAL)
    read = ZkUtils.all_brokers
    failures = [TreeUnavailableError("/brokers/ids"), TreeUnavailableError("/brokers/ids")]

    async def all_brokers(
        zk: ZkUtils, watch: Watch | None = None, broker_watch: Watch | None = None
    ) -> list[Broker]:
        if failures:
            raise failures.pop()
        return await read(zk, watch, broker_watch)

    monkeypatch.setattr(ZkUtils, "all_brokers", all_brokers)
    broker = await cluster.start(0)
    assert broker.controller.is_active
    assert broker.controller.epoch == 3
    await create(cluster, "t")
    assert broker.metadata.contains_topic("t")


async def test_events_are_worked_in_order_and_one_that_fails_stops_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.CRITICAL):
        worked: list[Event] = []

        async def process(event: Event) -> None:
            worked.append(event)
            if isinstance(event, events.TopicChange):
                raise ValueError("planted")

        queue = EventQueue(process)
        queue.start()
        queue.put(events.TopicChange())
        await queue.ask(events.BrokerChange())
        await queue.stop()
        assert worked == [events.TopicChange(), events.BrokerChange()]
