"""Registering a broker: for each session anew, and never over the head of one that lives."""

from __future__ import annotations

import asyncio

import pytest

from kbroker.model import Broker, EndPoint
from kbroker.server.membership.kafka_healthcheck import GRACE_MS, KafkaHealthcheck
from kbroker.server.start_error import BrokerIdInUseError
from kbroker.zk import zk_paths
from kbroker.zk.embedded.embedded_tree import EmbeddedTree, TreeSession
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.trees.memory_tree_files import FixedClock

SOON_MS = 30.0 - GRACE_MS  # of a session time-out: what is waited for comes at once or never


def broker(port: int = 9092) -> Broker:
    return Broker(broker_id=3, end_points=(EndPoint(listener_name="P", host="h", port=port),))


class Place:
    """A tree, this broker's session on it, and what answers where."""

    def __init__(self) -> None:
        self.store = EmbeddedTree(FixedClock())
        self.session = self.store.session()
        self.zk = ZkUtils(self.session, FixedClock())
        self.answering: set[int] = set()
        self.probed: list[int] = []

    def healthcheck(self, session_timeout_ms: float = SOON_MS) -> KafkaHealthcheck:
        return KafkaHealthcheck(self.zk, session_timeout_ms, self.answers)

    async def other(self, port: int) -> TreeSession:
        """A broker of the same id that registered before."""
        session = self.store.session()
        await ZkUtils(session, FixedClock()).register_broker(broker(port))
        return session

    async def answers(self, end_point: EndPoint) -> bool:
        self.probed.append(end_point.port)
        return end_point.port in self.answering

    async def owner(self) -> int:
        stat = await self.session.exists(zk_paths.broker_path(3))
        return stat.ephemeral_owner if stat is not None else 0


@pytest.fixture
async def place() -> Place:
    place = Place()
    await place.zk.create_persistent_paths()
    return place


async def test_the_epoch_is_the_creation_id_of_the_node(place: Place) -> None:
    healthcheck = place.healthcheck()

    epoch = await healthcheck.register(broker())

    stat = await place.session.exists(zk_paths.broker_path(3))
    assert stat is not None
    assert epoch == healthcheck.broker_epoch == stat.czxid
    assert await place.owner() == place.session.session_id


async def test_a_node_made_by_this_session_already_counts(place: Place) -> None:
    epoch = await place.healthcheck().register(broker())

    assert await place.healthcheck().register(broker()) == epoch


async def test_each_session_has_its_own_registration_and_epoch(place: Place) -> None:
    healthcheck = place.healthcheck()
    first = await healthcheck.register(broker())
    place.session.expire()
    place.session.renew()

    second = await healthcheck.register(broker())

    assert second > first
    assert await place.owner() == place.session.session_id


async def test_what_a_session_of_its_own_left_behind_is_replaced_at_once(place: Place) -> None:
    healthcheck = place.healthcheck()
    await healthcheck.register(broker())
    place.zk.tree = place.store.session()  # the ensemble has not noticed the end of the first

    await healthcheck.register(broker())

    assert await place.owner() == place.zk.tree.session_id


async def test_a_running_broker_of_that_id_is_named_and_left_alone(place: Place) -> None:
    other = await place.other(9093)
    place.answering.add(9093)

    with pytest.raises(BrokerIdInUseError, match=r"broker\.id 3 is in use .*P://h:9093"):
        await place.healthcheck(session_timeout_ms=60_000).register(broker())

    assert await place.owner() == other.session_id


async def test_an_address_that_another_broker_has_by_now_tells_nothing(place: Place) -> None:
    await place.other(9093)
    third = Broker(broker_id=4, end_points=broker(9093).end_points)
    await ZkUtils(place.store.session(), FixedClock()).register_broker(third)
    place.answering.add(9093)

    with pytest.raises(BrokerIdInUseError, match="still registered"):
        await place.healthcheck().register(broker())

    assert place.probed == []


@pytest.mark.parametrize("port", [9092, 9093])
async def test_a_registration_that_outlived_its_broker_is_waited_for(
    port: int, caplog: pytest.LogCaptureFixture, place: Place
) -> None:
    other = await place.other(port)
    registering = asyncio.create_task(
        place.healthcheck(session_timeout_ms=60_000).register(broker())
    )
    for _ in range(10):  # until it waits
        await asyncio.sleep(0)
    assert "waiting up to 62 s" in caplog.text
    other.expire()

    await registering

    assert await place.owner() == place.session.session_id
    # The address in the node is the one that this broker listens on: nobody else can be there.
    assert place.probed == ([] if port == 9092 else [port])


async def test_a_registration_that_does_not_go_is_refused_after_the_time_out(place: Place) -> None:
    await place.other(9093)

    with pytest.raises(BrokerIdInUseError, match=r"still registered after 0\.03 s"):
        await place.healthcheck().register(broker())


async def test_a_node_that_cannot_be_read_is_waited_for_like_any_other(place: Place) -> None:
    other = place.store.session()
    await other.create(zk_paths.broker_path(3), b"{}", ephemeral=True)

    with pytest.raises(BrokerIdInUseError, match="still registered"):
        await place.healthcheck().register(broker())


async def test_a_tree_that_cannot_be_reached_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, place: Place
) -> None:
    place.session.suspend()
    waits: list[float] = []

    async def sleep(delay_s: float) -> None:
        waits.append(delay_s)
        if len(waits) == 3:
            place.session.resume()

    monkeypatch.setattr("kbroker.server.membership.kafka_healthcheck.asyncio.sleep", sleep)

    await place.healthcheck().register(broker())

    assert len(waits) == 3
    assert await place.owner() == place.session.session_id
