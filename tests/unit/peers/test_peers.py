"""What senders claim, held against a tree that may be behind, out of reach, or changing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kbroker.errors import ErrorCode, ProtocolError
from kbroker.model import EndPoint
from kbroker.peers.cluster_action import BrokerClaim, ControllerClaim, PeerListeners
from kbroker.peers.peers import TREE_PATIENCE_MS, Peers
from kbroker.zk import zk_paths
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.nodes.cluster_members import ClusterMembers
from kbroker.zk.tree import TreeUnavailableError, Watch
from tests.fakes.running.virtual_loop import LoopClock, VirtualLoop

STALE = ErrorCode.STALE_CONTROLLER_EPOCH
REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
pytestmark = pytest.mark.virtual_time


class LaggingMembers(ClusterMembers):
    """Reads that show an earlier state until they are told to catch up."""

    def __init__(self, tree: Any) -> None:
        super().__init__(tree)
        self.earlier: tuple[int | None, int] | None = None
        self.is_broker_late = False
        self.is_away = False
        self.reads = 0

    async def controller(self) -> tuple[int | None, int]:
        self._count()
        return await super().controller() if self.earlier is None else self.earlier

    async def broker_epoch(self, broker_id: int, watch: Watch) -> int | None:
        self._count()
        return None if self.is_broker_late else await super().broker_epoch(broker_id, watch)

    async def catch_up(self) -> None:
        await super().catch_up()
        self.earlier, self.is_broker_late = None, False

    def _count(self) -> None:
        self.reads += 1
        if self.is_away:
            raise TreeUnavailableError("/")


class World:
    """Controller 3 of epoch 5, and broker 3."""

    def __init__(self, clock: Any) -> None:
        self.tree = EmbeddedTree(clock).session()
        self.members = LaggingMembers(self.tree)
        self.peers = Peers(PeerListeners(frozenset({"P"})), self.members, clock)
        self.broker_epoch = -1

    async def begin(self) -> None:
        await self.tree.create(zk_paths.BROKER_IDS, make_parents=True)
        await self.tree.create(zk_paths.CONTROLLER_EPOCH, zk_paths.encode_controller_epoch(5))
        await self.seat(3)
        await self.register()

    async def seat(self, broker_id: int) -> None:
        await self.tree.create(zk_paths.CONTROLLER, zk_paths.encode_controller(broker_id, 0))

    async def register(self) -> None:
        path = zk_paths.broker_path(3)
        await self.tree.create(path, b"{}", ephemeral=True)
        stat = await self.tree.exists(path)
        assert stat is not None
        self.broker_epoch = stat.czxid

    async def says(self, controller_id: int, epoch: int) -> ErrorCode:
        return await self.peers.controller_refusal(ControllerClaim(controller_id, epoch))

    async def broker_says(self, broker_id: int, epoch: int = -1) -> ErrorCode:
        return await self.peers.broker_refusal(BrokerClaim(broker_id, epoch))


@pytest.fixture
async def world() -> World:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    world = World(LoopClock(loop))
    await world.begin()
    return world


async def test_the_tree_is_asked_once_for_each_controller(world: World) -> None:
    answers = [await world.says(3, 5) for _ in range(100)]

    assert (set(answers), world.members.reads) == ({ErrorCode.NONE}, 1)


@pytest.mark.parametrize(
    ("controller_id", "epoch", "code"),
    [(3, 4, STALE), (3, 6, STALE), (2, 4, STALE), (2, 5, REFUSED), (2, 2**31 - 1, REFUSED)],
)
async def test_others_are_refused_after_a_look(
    controller_id: int, epoch: int, code: ErrorCode, world: World
) -> None:
    assert await world.says(controller_id, epoch) == code
    assert await world.says(3, 5) == ErrorCode.NONE


@pytest.mark.parametrize("earlier", [(2, 4), (None, 4), (None, 5), (None, -1), (3, 4), (2, 5)])
async def test_a_controller_that_the_tree_does_not_show_yet_is_heard(
    earlier: tuple[int | None, int], world: World
) -> None:
    world.members.earlier = earlier

    assert await world.says(3, 5) == ErrorCode.NONE


async def test_a_controller_without_its_seat_is_told_so(world: World) -> None:
    await world.tree.delete(zk_paths.CONTROLLER)

    assert await world.says(3, 5) == STALE


@pytest.mark.parametrize("data", [b"", b"x", b"\xff", b"{}", None])
async def test_nodes_that_are_none_name_nobody(data: bytes | None, world: World) -> None:
    await world.tree.set(zk_paths.CONTROLLER, data)
    assert await world.says(3, 5) == STALE
    await world.tree.set(zk_paths.CONTROLLER_EPOCH, data)
    assert await world.says(3, 5) == STALE


async def test_a_broker_that_the_tree_does_not_show_yet_is_heard(world: World) -> None:
    world.members.is_broker_late = True

    assert await world.broker_says(3, world.broker_epoch) == ErrorCode.NONE


async def test_a_broker_is_looked_up_once_for_each_of_its_registrations(world: World) -> None:
    first = world.broker_epoch
    before = [await world.broker_says(3, first) for _ in range(100)]
    reads = world.members.reads
    await world.tree.delete(zk_paths.broker_path(3))
    await asyncio.sleep(0)
    while_gone = await world.broker_says(3, first)
    await world.register()
    after = [await world.broker_says(3, epoch) for epoch in (first, world.broker_epoch, -1)]

    assert (set(before), reads) == ({ErrorCode.NONE}, 1)
    assert while_gone == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert after == [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NONE, ErrorCode.NONE]


@pytest.mark.parametrize(
    "ask", [lambda w: w.says(3, 5), lambda w: w.broker_says(3)], ids=["controller", "broker"]
)
async def test_a_sender_waits_while_the_tree_is_away(
    ask: Callable[[World], Awaitable[ErrorCode]], world: World
) -> None:
    world.members.is_away = True
    asked = asyncio.ensure_future(ask(world))
    await asyncio.sleep(TREE_PATIENCE_MS / 2000)
    world.members.is_away = False

    assert await asked == ErrorCode.NONE


async def test_the_connection_is_closed_where_the_tree_stays_away(world: World) -> None:
    world.members.is_away = True

    with pytest.raises(ProtocolError):
        await world.says(3, 5)


def listeners(*names: str) -> list[EndPoint]:
    return [EndPoint(listener_name=name, host="h", port=1) for name in names]


@pytest.mark.parametrize(
    ("wanted", "open_"),
    [
        (("B", ()), {"B"}),
        (("B", ("C",)), {"B", "C"}),
        (("X", ()), {"A"}),  # others come by the first then
        (("X", ("C", "B")), {"A", "B", "C"}),
    ],
)
def test_brokers_come_by_the_listeners_that_are_named(
    wanted: tuple[str, tuple[str, ...]], open_: set[str]
) -> None:
    peers = PeerListeners.of(listeners("A", "B", "C"), *wanted)

    assert {name for name in "ABCX" if peers.is_open_to(name)} == open_


def test_nobody_is_heard_by_a_broker_without_peers() -> None:
    assert not PeerListeners().is_open_to("A")
