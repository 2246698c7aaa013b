"""A controller rests while its session is suspended, ends with it, and loses no change by a tree
that fails now and then.
"""

from __future__ import annotations

import asyncio
import logging

import pytest

from kbroker.controller import kafka_controller
from kbroker.controller.state_machines import events
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ReplicaAssignment
from kbroker.zk import zk_paths
from kbroker.zk.tree import TreeUnavailableError
from kbroker.zk.zk_paths import TopicAssignment
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.clusters.controller_cluster import ControllerCluster, FakeBroker


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(kafka_controller, "GIVE_UP_BACKOFF_S", 0.0)
    monkeypatch.setattr(kafka_controller, "RETRY_BACKOFF_S", 0.0)
    caplog.set_level(logging.CRITICAL)


async def create(broker: FakeBroker, name: str, *replicas: int) -> None:
    """Straight into the tree, through the session of a broker."""
    assignment = TopicAssignment(
        topic_id=zk_paths.decode_uuid("AAAAAAAAAAAAAAAAAAAAAQ"),
        partitions={0: ReplicaAssignment(replicas=replicas or (0,))},
    )
    await broker.session.create(zk_paths.topic_path(name), zk_paths.encode_topic(assignment))


async def test_while_suspended_nobody_acts_as_controller_and_what_came_is_worked_afterwards(
    cluster: ControllerCluster,
) -> None:
    controller, other = cluster.brokers[0], cluster.brokers[1]
    controller.activity.clear()

    controller.session.suspend()
    assert not controller.controller.is_active
    await create(other, "t")
    await cluster.settle()
    led_while_suspended = cluster.state()
    controller.session.resume()
    await cluster.settle()

    assert led_while_suspended == []
    assert controller.controller.is_active
    assert controller.controller.epoch == 1
    assert other.metadata.contains_topic("t")
    assert controller.activity == [False, True]


async def test_a_seat_lost_while_suspended_is_not_taken_up_again(
    cluster: ControllerCluster,
) -> None:
    old, new = cluster.brokers[0], cluster.brokers[1]
    old.session.suspend()
    await new.session.delete(zk_paths.CONTROLLER)
    await cluster.settle()
    old.activity.clear()
    old.session.resume()
    await cluster.settle()

    assert new.controller.is_active
    assert new.controller.epoch == 2
    assert not old.controller.is_active
    assert old.controller.controller_id == 1
    assert old.activity == []  # not even for a moment


async def test_a_request_to_a_suspended_controller_is_refused(cluster: ControllerCluster) -> None:
    cluster.brokers[0].session.suspend()
    with pytest.raises(KafkaError) as refused:
        await cluster.brokers[0].controller.controlled_shutdown(1)
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


async def test_what_is_queued_ends_with_the_session(cluster: ControllerCluster) -> None:
    broker = cluster.brokers[0]
    broker.session.suspend()
    asked = asyncio.create_task(broker.controller.queue.ask(events.ControlledShutdown(1)))
    await asyncio.sleep(0)
    broker.session.expire()
    with pytest.raises(KafkaError) as refused:
        await asked
    await cluster.settle()

    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    assert broker.controller.context is None
    assert cluster.brokers[1].controller.is_active


async def test_a_broker_that_starts_while_its_session_is_suspended_waits_for_it(
    cluster: ControllerCluster,
) -> None:
    broker = cluster.brokers[5] = FakeBroker(cluster, 5, None)
    await broker.register()
    broker.session.suspend()
    starting = asyncio.create_task(broker.controller.startup())
    await cluster.settle()
    assert not starting.done()
    broker.session.resume()
    await starting
    assert broker.controller.controller_id == 0


@pytest.mark.parametrize("brokers", [1])
async def test_a_new_session_registers_the_broker_before_it_competes(
    cluster: ControllerCluster,
) -> None:
    broker = cluster.brokers[0]
    await create(broker, "t", 0)
    await cluster.settle()
    first_epoch = broker.broker_epoch

    broker.session.expire()
    await cluster.settle()
    broker.session.renew()
    await cluster.settle()

    assert broker.broker_epoch > first_epoch
    assert broker.controller.is_active  # alone, so it is elected again
    assert broker.controller.epoch == 2
    live = broker.controller.context.live_brokers if broker.controller.context else {}
    assert live[0].epoch == broker.broker_epoch
    state = broker.metadata.partition_states("t").get(0)
    assert state is not None
    assert state.leader == 0


@pytest.mark.parametrize("brokers", [1])
async def test_sessions_that_end_at_once_are_not_registered_one_after_the_other(
    cluster: ControllerCluster,
) -> None:
    broker = cluster.brokers[0]
    registered: list[int] = []
    register = broker.register

    async def counting() -> int:
        registered.append(broker.session.session_id)
        return await register()

    broker.register = counting
    for _ in range(3):
        broker.session.expire()
        broker.session.renew()
    await cluster.settle()
    assert registered == [broker.session.session_id]
    assert broker.controller.is_active


@pytest.mark.parametrize("brokers", [1])
async def test_a_registration_that_fails_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, cluster: ControllerCluster
) -> None:
    broker = cluster.brokers[0]
    failures = [OSError("planted"), TreeUnavailableError("/brokers/ids/0")]
    register = broker.register

    async def flaky() -> int:
        if failures:
            raise failures.pop()
        return await register()

    broker.register = flaky
    broker.session.expire()
    await cluster.settle()
    broker.session.renew()
    for _ in range(5):
        await asyncio.sleep(0.001)
        await cluster.settle()

    assert failures == []
    assert broker.controller.is_active


FAILING = [
    "all_brokers",
    "topics",
    "topic_assignments",
    "partition_states",
    "create_partition_paths",
    "write_partition_states",
]


@pytest.mark.parametrize("method", FAILING)
@pytest.mark.parametrize("failures", [1, 3])
@pytest.mark.parametrize("brokers", [3])
async def test_no_change_is_lost_when_the_tree_fails_half_way(
    method: str, failures: int, monkeypatch: pytest.MonkeyPatch, cluster: ControllerCluster
) -> None:
    """A broker dies and a topic comes, and the tree fails the controller meanwhile."""
    controller = cluster.brokers[0]
    await create(controller, "old", 2, 0)
    await cluster.settle()
    real = getattr(ZkUtils, method)
    left = failures

    async def failing(zk: ZkUtils, *args: object, **more: object) -> object:
        nonlocal left
        if left and zk is controller.zk:
            left -= 1
            raise TreeUnavailableError("/planted")
        return await real(zk, *args, **more)

    monkeypatch.setattr(ZkUtils, method, failing)
    cluster.brokers[2].kill()
    await create(cluster.brokers[1], "new", 1)
    for _ in range(6):
        await asyncio.sleep(0.001)
        await cluster.settle()

    assert left == 0
    assert controller.controller.is_active
    assert controller.controller.epoch == 1  # the reign goes on
    for broker in cluster.brokers.values():
        states = [broker.metadata.partition_states(topic)[0] for topic in ("old", "new")]
        assert [state.leader for state in states] == [0, 1]
        assert broker.metadata.broker(2) is None


async def test_an_unexpected_error_in_an_event_loses_no_change_either(
    monkeypatch: pytest.MonkeyPatch, cluster: ControllerCluster
) -> None:
    controller = cluster.brokers[0]
    real = ZkUtils.create_partition_paths
    planted = [ValueError("planted")]

    async def failing(zk: ZkUtils, *args: object) -> None:
        if planted:
            raise planted.pop()
        await real(zk, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(ZkUtils, "create_partition_paths", failing)
    await create(controller, "t", 1)
    await cluster.settle()

    assert planted == []
    assert cluster.brokers[1].metadata.contains_topic("t")


async def test_a_broker_that_was_about_to_stop_is_still_so_after_the_cluster_was_read_anew(
    cluster: ControllerCluster,
) -> None:
    controller = cluster.brokers[0].controller
    await controller.controlled_shutdown(1)
    controller.read_anew()
    await cluster.settle()
    assert controller.context is not None
    assert controller.context.shutting_down == {1}


async def test_a_node_of_our_own_session_that_names_another_broker_is_cleared_away(
    cluster: ControllerCluster,
) -> None:
    broker = cluster.brokers[0]
    for data in (zk_paths.encode_controller(9, 0), b"no JSON"):
        await broker.session.set(zk_paths.CONTROLLER, data)
        await cluster.settle()
    active = [b.broker_id for b in cluster.brokers.values() if b.controller.is_active]
    assert len(active) == 1
    assert {b.controller.controller_id for b in cluster.brokers.values()} == set(active)


@pytest.mark.parametrize("brokers", [1])
async def test_an_epoch_node_removed_by_hand_does_not_let_epochs_begin_anew(
    cluster: ControllerCluster,
) -> None:
    broker = cluster.brokers[0]
    for _ in range(3):
        await broker.session.delete(zk_paths.CONTROLLER)
        await cluster.settle()
    assert broker.controller.epoch == 4
    await broker.session.delete(zk_paths.CONTROLLER_EPOCH)
    await create(broker, "t", 0)
    await cluster.settle()
    assert broker.controller.epoch == 5
    assert broker.metadata.contains_topic("t")


@pytest.mark.parametrize("brokers", [1])
async def test_a_malformed_epoch_node_holds_the_election_up_until_it_is_mended(
    cluster: ControllerCluster,
) -> None:
    broker = cluster.brokers[0]
    await broker.session.set(zk_paths.CONTROLLER_EPOCH, b"many")
    await create(broker, "t", 0)
    await cluster.settle()
    assert not broker.controller.is_active
    await broker.session.set(zk_paths.CONTROLLER_EPOCH, b"41")
    for _ in range(5):
        await asyncio.sleep(0.001)
        await cluster.settle()
    assert broker.controller.epoch == 42
    assert broker.metadata.contains_topic("t")


async def test_a_session_that_ends_while_a_broker_takes_the_seat_is_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, cluster: ControllerCluster
) -> None:
    caplog.set_level(logging.WARNING)

    async def failing(*_: object) -> None:
        raise TreeUnavailableError("/brokers/topics")

    monkeypatch.setattr(ZkUtils, "topics", failing)
    cluster.brokers[0].kill()
    await cluster.settle()
    monkeypatch.undo()

    said = [record for record in caplog.records if "cannot be controller now" in record.message]
    assert said
    assert {(record.levelno, record.exc_info) for record in said} == {(logging.WARNING, None)}
