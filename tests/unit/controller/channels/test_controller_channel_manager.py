"""Requests reach a broker in order, once, and only in the life they are meant for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from kbroker.controller.channels import controller_channel_manager
from kbroker.controller.channels.controller_channel_manager import (
    ControllerChannelManager,
    ControlResponse,
)
from kbroker.controller.channels.request_queue import MERGE_ABOVE
from kbroker.model import Broker, EndPoint
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kbroker.replication.controller_requests.request_shapes import ControlRequest


class Network:
    """Channels to brokers by host; keeps what arrived, in order, and who closed."""

    def __init__(self) -> None:
        self.arrived: list[tuple[str, int]] = []
        self.answered: list[int] = []
        self.closed: list[str] = []
        self.errors: list[Exception] = []  # of the next sends
        self.gate: asyncio.Event | None = None  # answers wait for it
        self.gate_error: Exception | None = None  # of the first that waits there

    def connect(self, broker: Broker) -> Channel:
        return Channel(self, broker.end_points[0].host)

    def on_response(self, _broker_id: int, request: ControlRequest, _: ControlResponse) -> None:
        self.answered.append(number_of(request))


class Channel:
    def __init__(self, network: Network, host: str) -> None:
        self._network = network
        self._host = host

    async def send(self, request: ControlRequest) -> ControlResponse:
        if self._network.errors:
            raise self._network.errors.pop(0)
        self._network.arrived.append((self._host, number_of(request)))
        if self._network.gate is not None:
            await self._network.gate.wait()
            error, self._network.gate_error = self._network.gate_error, None
            if error is not None:
                raise error
        return UpdateMetadataResponse()

    def close(self) -> None:
        self._network.closed.append(self._host)


def broker(host: str = "a", epoch: int = 1) -> Broker:
    end_point = EndPoint(listener_name="PLAINTEXT", host=host, port=9092)
    return Broker(broker_id=1, end_points=(end_point,), epoch=epoch)


def request(number: int) -> tuple[int, ControlRequest]:
    return 1, UpdateMetadataRequest(controller_id=0, controller_epoch=1, broker_epoch=number)


def number_of(request: ControlRequest) -> int:
    return request.broker_epoch


async def turns() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
async def manager(network: Network) -> AsyncIterator[ControllerChannelManager]:
    manager = ControllerChannelManager(network.connect, network.on_response)
    yield manager
    await manager.stop()


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(controller_channel_manager, "RETRY_BACKOFF_S", 0.0)
    caplog.set_level(logging.CRITICAL)


async def test_the_next_request_waits_for_the_answer_to_the_one_before(
    manager: ControllerChannelManager, network: Network
) -> None:
    network.gate = asyncio.Event()
    manager.add_broker(broker())
    manager.send([request(1), request(2)])
    await turns()
    assert network.arrived == [("a", 1)]
    network.gate.set()
    await turns()
    await manager.stop()
    assert network.arrived == [("a", 1), ("a", 2)]
    assert network.answered == [1, 2]


async def test_a_request_that_did_not_get_through_is_sent_again_before_any_later_one(
    manager: ControllerChannelManager, network: Network
) -> None:
    network.errors = [ConnectionResetError(), TimeoutError()]
    manager.add_broker(broker())
    manager.send([request(1)])
    await turns()
    manager.send([request(2)])
    await turns()
    await manager.stop()
    assert network.arrived == [("a", 1), ("a", 2)]


async def test_what_waits_for_a_broker_out_of_reach_is_merged(
    manager: ControllerChannelManager, network: Network
) -> None:
    network.errors = [ConnectionRefusedError()]
    manager.add_broker(broker())
    manager.send(request(number) for number in range(10))
    await turns()
    await manager.stop()
    assert network.arrived == [("a", 9)]


async def test_a_broker_that_does_not_answer_gets_no_endless_queue(
    manager: ControllerChannelManager, network: Network
) -> None:
    network.gate = asyncio.Event()
    manager.add_broker(broker())
    for number in range(10 * MERGE_ABOVE):
        manager.send([request(number)])
        await asyncio.sleep(0)
    assert 0 < manager.queue_size <= MERGE_ABOVE
    network.gate.set()
    for _ in range(5):
        await turns()
    await manager.stop()
    numbers = [number for _, number in network.arrived]
    assert numbers == sorted(set(numbers))  # in order, none twice
    assert numbers[-1] == 10 * MERGE_ABOVE - 1


async def test_a_broker_that_registered_anew_gets_nothing_meant_for_its_earlier_life(
    manager: ControllerChannelManager, network: Network
) -> None:
    network.gate = asyncio.Event()
    manager.add_broker(broker())
    manager.send([request(1), request(2)])
    await turns()
    await manager.set_brokers([broker(epoch=2)])
    network.gate.set()
    manager.send([request(3)])
    await turns()
    await manager.stop()
    assert [number for _, number in network.arrived] == [1, 3]
    assert network.answered == [3]  # the answer to the earlier life counts no more
    assert network.closed[0] == "a"


async def test_a_broker_that_moved_gets_what_waits_at_its_new_address(
    manager: ControllerChannelManager, network: Network
) -> None:
    network.gate = asyncio.Event()
    manager.add_broker(broker())
    manager.send([request(1), request(2)])
    await turns()
    manager.update_broker(broker("b"))
    network.gate.set()
    await turns()
    await manager.stop()
    assert network.arrived == [("a", 1), ("b", 2)]
    assert network.closed == ["a", "b"]


async def test_a_broker_that_only_changed_its_rack_keeps_its_channel(
    manager: ControllerChannelManager, network: Network
) -> None:
    manager.add_broker(broker())
    manager.update_broker(broker())
    assert network.closed == []


async def test_brokers_that_went_are_sent_nothing(
    manager: ControllerChannelManager, network: Network
) -> None:
    await manager.set_brokers([broker()])
    await manager.set_brokers([])
    manager.send([request(1)])
    await turns()
    await manager.stop()
    assert network.arrived == []


async def test_a_request_nobody_can_make_sense_of_does_not_hold_up_the_others(
    manager: ControllerChannelManager, network: Network
) -> None:
    network.errors = [ValueError("planted")]
    manager.add_broker(broker())
    manager.send([request(1), request(2)])
    await turns()
    await manager.stop()
    assert network.arrived == [("a", 2)]


async def test_a_failing_broker_is_reported_less_and_less_often(
    caplog: pytest.LogCaptureFixture, manager: ControllerChannelManager, network: Network
) -> None:
    caplog.set_level(logging.INFO)

    network.errors = [ConnectionRefusedError() for _ in range(9)]
    manager.add_broker(broker())
    manager.send([request(1)])
    await turns()
    await turns()
    await manager.stop()
    reports = [r.getMessage() for r in caplog.records if "cannot be reached" in r.getMessage()]
    assert len(reports) == 4  # after 1, 2, 4 and 8 failures
    assert "broker 1 can be reached again" in caplog.text


async def test_a_broker_that_stops_worries_nobody_until_it_has_come_again(
    caplog: pytest.LogCaptureFixture, manager: ControllerChannelManager, network: Network
) -> None:
    caplog.set_level(logging.INFO)
    network.errors = [ConnectionResetError("stopping")]

    manager.add_broker(broker())
    manager.expect_end(1)
    manager.send([request(1)])
    await turns()
    network.errors = [ConnectionResetError("failing")]
    await manager.set_brokers([broker(epoch=2)])
    manager.send([request(2)])
    await turns()
    await manager.stop()

    reports = [r for r in caplog.records if "cannot be reached" in r.getMessage()]
    assert [(r.levelname, "stopping" in r.getMessage()) for r in reports] == [
        ("INFO", True),
        ("WARNING", False),
    ]


@pytest.mark.parametrize("is_cut", [False, True])
async def test_what_is_on_its_way_when_all_begins_anew_is_neither_repeated_nor_told_of(
    is_cut: bool, manager: ControllerChannelManager, network: Network
) -> None:
    manager.add_broker(broker())
    network.gate = asyncio.Event()
    manager.send([request(1), request(2)])
    await turns()
    if is_cut:
        network.gate_error = ConnectionResetError()
    manager.begin_anew()
    manager.send([request(3)])
    network.gate.set()
    await turns()
    await manager.stop()
    assert [number for _, number in network.arrived] == [1, 3]
    assert network.answered == [3]


async def test_a_stop_that_is_cut_short_has_stopped_all_the_same() -> None:
    network = Network()
    manager = ControllerChannelManager(network.connect, network.on_response)
    before = asyncio.all_tasks()
    for broker_id in (1, 2):
        manager.add_broker(Broker(broker_id=broker_id, end_points=broker().end_points))
    await turns()

    stop = asyncio.create_task(manager.stop())
    await asyncio.sleep(0)
    stop.cancel()
    await turns()

    assert {task.get_name() for task in asyncio.all_tasks() - before} == set()
