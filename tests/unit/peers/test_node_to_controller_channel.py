from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import Broker, EndPoint
from kbroker.peers.node_to_controller_channel import (
    CONNECTIONS_MAX,
    NodeToControllerChannel,
    PeerClient,
)

OWN_ID = 9
pytestmark = pytest.mark.virtual_time


class FakeSeat:
    def __init__(self, controller_id: int) -> None:
        self.controller_id = controller_id

    @property
    def is_active(self) -> bool:
        return self.controller_id == OWN_ID


class FakeClient:
    def __init__(self, target: Broker) -> None:
        self.target = target
        self.is_closed = False

    async def serves(self, *_: Any, **__: Any) -> bool:
        return True

    async def send(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("the question does that")

    def close(self) -> None:
        self.is_closed = True


class World:
    """A broker's view of its cluster, and the connections it has opened."""

    def __init__(self) -> None:
        self.seat = FakeSeat(0)
        self.live = {broker_id: broker(broker_id) for broker_id in range(3)}
        self.clients: list[FakeClient] = []
        self.channel = NodeToControllerChannel(OWN_ID, self.seat, self.live.get, self._open)

    def _open(self, target: Broker) -> FakeClient:
        self.clients.append(FakeClient(target))
        return self.clients[-1]


def broker(broker_id: int, port: int = 9092) -> Broker:
    end_point = EndPoint(listener_name="PLAINTEXT", host="h", port=port)
    return Broker(broker_id=broker_id, end_points=(end_point,))


async def who(client: PeerClient, _timeout_ms: float) -> int:
    """The id of the broker that is asked."""
    assert isinstance(client, FakeClient)
    assert not client.is_closed
    await asyncio.sleep(0)
    return client.target.broker_id


@pytest.fixture
async def world() -> World:
    return World()


def seconds() -> float:
    """How long the test has taken: its loop begins at 0."""
    return asyncio.get_running_loop().time()


async def test_questions_that_follow_each_other_share_a_connection(world: World) -> None:
    answers = [await world.channel.ask(who, 1_000) for _ in range(5)]

    assert (answers, len(world.clients)) == ([0] * 5, 1)


async def test_questions_at_once_have_connections_of_their_own_up_to_a_bound(world: World) -> None:
    asking = 0
    most = 0

    async def slow(client: PeerClient, timeout_ms: float) -> int:
        nonlocal asking, most
        asking += 1
        most = max(most, asking)
        await asyncio.sleep(0.01)
        asking -= 1
        return await who(client, timeout_ms)

    answers = await asyncio.gather(*(world.channel.ask(slow, 1_000) for _ in range(50)))

    assert answers == [0] * 50
    assert (most, len(world.clients)) == (CONNECTIONS_MAX, CONNECTIONS_MAX)


async def test_the_next_controller_is_asked_and_connections_to_the_last_one_close(
    world: World,
) -> None:
    await world.channel.ask(who, 1_000)
    world.seat.controller_id = 2

    assert await world.channel.ask(who, 1_000) == 2
    assert [client.is_closed for client in world.clients] == [True, False]


async def test_a_controller_at_another_address_is_asked_there(world: World) -> None:
    await world.channel.ask(who, 1_000)
    world.live[0] = broker(0, port=9999)
    await world.channel.ask(who, 1_000)

    assert [client.target.end_points[0].port for client in world.clients] == [9092, 9999]


async def test_a_connection_that_failed_is_not_used_again(world: World) -> None:
    async def once(client: PeerClient, timeout_ms: float) -> int:
        if len(world.clients) == 1:
            raise ConnectionResetError
        return await who(client, timeout_ms)

    assert await world.channel.ask(once, 1_000) == 0
    assert [client.is_closed for client in world.clients] == [True, False]


@pytest.mark.parametrize("code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.UNSUPPORTED_VERSION])
async def test_a_refusal_is_an_answer(code: ErrorCode, world: World) -> None:
    async def refused(_client: PeerClient, _timeout_ms: float) -> int:
        raise KafkaError(code)

    with pytest.raises(KafkaError) as caught:
        await world.channel.ask(refused, 60_000)
    assert caught.value.code is code
    assert seconds() < 1


@pytest.mark.parametrize("controller_id", [-1, 7])
async def test_nobody_known_to_ask_ends_with_not_controller(
    controller_id: int, world: World
) -> None:
    world.seat.controller_id = controller_id

    with pytest.raises(KafkaError) as caught:
        await world.channel.ask(who, 2_000)
    assert (caught.value.code, world.clients) == (ErrorCode.NOT_CONTROLLER, [])
    assert 1.8 <= seconds() <= 2


async def test_a_broker_that_is_controller_itself_is_told_at_once(world: World) -> None:
    world.seat.controller_id = OWN_ID

    assert await world.channel.ask(who, 1_000) is None
    assert seconds() == 0


async def test_a_question_that_is_given_up_closes_its_connection(world: World) -> None:
    async def never(_client: PeerClient, _timeout_ms: float) -> int:
        await asyncio.Event().wait()
        return 0

    asking = asyncio.create_task(world.channel.ask(never, 60_000))
    await asyncio.sleep(0.5)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)

    assert asking.cancelled()
    assert [client.is_closed for client in world.clients] == [True]
    assert await world.channel.ask(who, 1_000) == 0


async def test_close_ends_the_connections_that_are_not_in_use(world: World) -> None:
    await world.channel.ask(who, 1_000)
    world.channel.close()

    assert [client.is_closed for client in world.clients] == [True]


async def test_an_answer_that_went_with_the_seat_leaves_open_what_was_done(world: World) -> None:
    async def never(_client: PeerClient, _timeout_ms: float) -> int:
        world.seat.controller_id = -1
        await asyncio.Event().wait()
        return 0

    with pytest.raises(KafkaError) as caught:
        await world.channel.ask(never, 2_000)
    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert [client.is_closed for client in world.clients] == [True]
    assert seconds() <= 2


async def test_a_controller_that_stays_away_is_told_once_per_question(
    caplog: pytest.LogCaptureFixture, world: World
) -> None:
    async def refuse(_client: PeerClient, _timeout_ms: float) -> None:
        raise ConnectionRefusedError

    with pytest.raises(KafkaError):
        await world.channel.ask(refuse, 3_000)

    said = [r for r in caplog.records if r.levelname == "WARNING" and "no answer" in r.message]
    assert len(said) == 1


async def test_a_seat_that_changes_hands_is_nothing_to_be_told(
    caplog: pytest.LogCaptureFixture, world: World
) -> None:
    async def stopping(client: PeerClient, timeout_ms: float) -> int:
        if world.seat.controller_id == 0:
            world.seat.controller_id = 2
            raise ConnectionRefusedError
        return await who(client, timeout_ms)

    assert await world.channel.ask(stopping, 3_000) == 2

    assert [r for r in caplog.records if r.levelname == "WARNING"] == []
