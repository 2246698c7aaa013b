"""When a broker that starts may serve clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from uuid import UUID

import pytest

from kbroker.model import Broker, EndPoint, LeaderAndIsr, ReplicaAssignment, TopicPartition
from kbroker.peers.metadata_waiter import MetadataWaiter
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.server.membership import cluster_membership
from kbroker.server.membership.cluster_membership import ClusterMembership
from kbroker.server.start_error import BrokerIdInUseError
from kbroker.zk import zk_paths
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.zk_paths import TopicAssignment
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.trees.memory_tree_files import FixedClock

OWN, OTHER = 1, 2


class Start:
    """A start of broker 1, told of the cluster by `tell`."""

    def __init__(self) -> None:
        self.session = EmbeddedTree(FixedClock()).session()
        self.zk = ZkUtils(self.session, FixedClock())
        self.metadata = MetadataCache(OWN)
        self.waiter = MetadataWaiter()
        self.controller_id = -1
        self.done: list[str] = []
        self.held: set[TopicPartition] = set()
        self.failure: Exception | None = None
        self.on_startup: Callable[[], None] = lambda: None

    async def begin(self, *topics: str) -> asyncio.Task[None]:
        await self.zk.create_persistent_paths()
        for topic in topics:
            await self.session.create(zk_paths.topic_path(topic), assignment())
        membership = ClusterMembership(
            broker_id=OWN,
            zk=self.zk,
            controller=SimpleNamespace(startup=self._startup, controller_id=self.controller_id),  # type: ignore[arg-type]
            metadata=self.metadata,
            waiter=self.waiter,
            register=self._register,
            holds=self.held.__contains__,
            failure=lambda: self.failure,
        )
        task = asyncio.create_task(membership.join())
        await rest()
        return task

    def tell(
        self,
        brokers: tuple[int, ...] = (OWN, OTHER),
        isr: list[int] | None = None,
        **leaders: int,
    ) -> None:
        """The leader of partition 0 of each topic; one that has none is on broker 1 alone."""
        states = [
            UpdateMetadataRequest.UpdateMetadataTopicState(
                topic_name=topic,
                partition_states=[
                    UpdateMetadataRequest.UpdateMetadataPartitionState(
                        topic_name=topic,
                        partition_index=0,
                        leader=leader,
                        replicas=[OTHER if leader == OTHER else OWN],
                        isr=[OTHER if leader == OTHER else OWN] if isr is None else isr,
                    )
                ],
            )
            for topic, leader in leaders.items()
        ]
        live = [UpdateMetadataRequest.UpdateMetadataBroker(id=number) for number in brokers]
        self.metadata.update(
            UpdateMetadataRequest(controller_epoch=1, topic_states=states, live_brokers=live)
        )
        self.waiter.notify()

    async def add_state(self, topic: str, data: bytes) -> None:
        """The state node of partition 0."""
        for path in (
            zk_paths.partitions_path(topic),
            zk_paths.partition_path(topic, 0),
        ):
            await self.session.create(path, None)
        await self.session.create(zk_paths.partition_state_path(topic, 0), data)

    async def _register(self) -> None:
        self.done.append("registered")
        end_point = EndPoint(listener_name="PLAINTEXT", host="127.0.0.1", port=9092)
        if await self.zk.broker(OWN) is None:
            await self.zk.register_broker(Broker(broker_id=OWN, end_points=(end_point,)))

    async def _startup(self) -> None:
        self.done.append("competed")
        self.on_startup()


def assignment(partitions: int = 1, broker: int = OWN) -> bytes:
    return zk_paths.encode_topic(
        TopicAssignment(
            topic_id=UUID(int=7),
            partitions={n: ReplicaAssignment(replicas=(broker,)) for n in range(partitions)},
        )
    )


async def rest() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def start() -> Start:
    return Start()


@asynccontextmanager
async def ends_within(seconds: float) -> AsyncIterator[Start]:
    """On a loop that jumps to its next timer: nothing may wait for longer."""
    yield Start()
    assert asyncio.get_running_loop().time() <= seconds


async def test_a_broker_serves_when_it_is_told_of_itself_and_of_every_topic(start: Start) -> None:
    joining = await start.begin("a", "b")
    assert start.done == ["registered", "competed"]

    start.tell((OTHER,), a=OTHER, b=OTHER)
    await rest()
    assert not joining.done()
    start.tell(a=OTHER)
    start.tell(b=OTHER)

    await joining


async def test_it_waits_for_topics_it_has_not_heard_of(start: Start) -> None:
    joining = await start.begin("a", "b")

    start.tell(a=OTHER)
    await rest()
    assert not joining.done()
    start.tell(b=OTHER)

    await joining


async def test_topics_that_nobody_will_tell_of_hold_nobody_up(start: Start) -> None:
    joining = await start.begin()
    await start.session.create(zk_paths.topic_path("spoilt"), b"{")
    await start.session.create(zk_paths.topic_path("empty"), assignment(0))
    await start.session.create(zk_paths.topic_path("going"), assignment())
    await start.zk.create_delete_topics(["going"])

    start.tell()

    await asyncio.wait_for(joining, 5)


@pytest.mark.virtual_time
async def test_topics_whose_brokers_are_away_hold_nobody_up() -> None:
    async with ends_within(0.0) as start:
        joining = await start.begin()
        await start.session.create(zk_paths.topic_path("gone"), assignment(2, broker=99))
        start.tell()

        await joining


async def test_a_topic_with_a_state_is_waited_for_though_its_brokers_are_away(start: Start) -> None:
    joining = await start.begin()
    await start.session.create(zk_paths.topic_path("a"), assignment(broker=OTHER))
    state = LeaderAndIsr(leader=OTHER, leader_epoch=0, isr=(OTHER,))
    await start.add_state("a", zk_paths.encode_partition_state(state, 1))

    start.tell()
    await rest()
    assert not joining.done()
    start.tell(a=OTHER)

    await joining


@pytest.mark.virtual_time
async def test_a_topic_whose_state_is_spoilt_is_given_up_at_the_second_look() -> None:
    async with ends_within(cluster_membership.LOOK_CLOSER_MS / 1000) as start:
        joining = await start.begin("spoilt")
        await start.add_state("spoilt", b"{")
        start.tell()

        await joining


@pytest.mark.virtual_time
async def test_a_name_that_no_directory_can_have_is_not_waited_for() -> None:
    async with ends_within(0.0) as start:
        joining = await start.begin("no topic")
        start.tell()

        await joining


@pytest.mark.virtual_time
async def test_what_this_broker_alone_holds_but_not_in_sync_is_not_waited_for() -> None:
    async with ends_within(0.0) as start:
        joining = await start.begin("a")

        start.tell(isr=[OTHER], a=-1)

        await joining


async def test_it_leads_before_it_serves_what_only_it_can_lead(start: Start) -> None:
    joining = await start.begin("a")

    start.tell(a=-1)
    await rest()
    assert not joining.done()
    start.tell(a=OWN)
    await rest()
    assert not joining.done()
    start.held.add(TopicPartition("a", 0))
    start.waiter.notify()

    await joining


async def test_a_controller_that_is_slow_is_waited_for_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, start: Start
) -> None:
    monkeypatch.setattr(cluster_membership, "SAY_INTERVAL_MS", 1.0)
    start.controller_id = OTHER
    joining = await start.begin()
    while caplog.text.count("the controller, broker 2, is slow: broker 1 waits") < 2:  # noqa: ASYNC110  a log
        await asyncio.sleep(0.001)
    start.tell()

    await joining


async def test_without_a_controller_it_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, start: Start
) -> None:
    monkeypatch.setattr(cluster_membership, "SAY_INTERVAL_MS", 1.0)
    joining = await start.begin()
    while "there is no controller: broker 1 waits" not in caplog.text:  # noqa: ASYNC110  a log
        await asyncio.sleep(0.001)
    start.tell()

    await joining


async def test_a_session_that_ends_before_the_controller_follows_it_is_registered_for(
    start: Start,
) -> None:
    def expire() -> None:
        start.session.expire()
        start.session.renew()

    start.on_startup = expire
    joining = await start.begin()
    start.tell()

    await joining

    assert start.done == ["registered", "competed", "registered"]


async def test_what_keeps_the_broker_from_going_on_ends_the_start(start: Start) -> None:
    joining = await start.begin()
    start.failure = BrokerIdInUseError("taken")
    start.waiter.notify()

    with pytest.raises(BrokerIdInUseError, match="taken"):
        await joining
