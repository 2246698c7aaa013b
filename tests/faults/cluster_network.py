"""The network between the brokers of a simulated cluster.

Law: what one controller sends to one broker address arrives in its order, late, once or never; what
was sent before a connection broke may arrive after it, at whatever process listens there then. The
answer of a request that was carried out may be lost.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any

from kbroker.errors import ProtocolError
from kbroker.model import Broker
from kbroker.protocol.schema import Message
from kbroker.replication.controller_requests.request_shapes import ControlRequest, ControlResponse
from tests.fakes.requests.request_frames import frame_of, response_of
from tests.fakes.running.virtual_loop import VirtualLoop, nobody
from tests.faults.cluster_process import BrokerProcess

SOCKET_TIMEOUT_S = 4.0  # controller.socket.timeout.ms of this cluster


@dataclass(slots=True)
class NetworkWeather:
    """How long messages take and how many are lost."""

    random: Random
    slow: float = 0.05
    slow_s: float = 2.0
    lost_requests: float = 0.02
    lost_answers: float = 0.02

    def delay_s(self) -> float:
        random = self.random
        if random.random() < self.slow:
            return random.random() * self.slow_s
        return random.random() * 0.005


@dataclass(slots=True)
class NetworkCounts:
    requests: int = 0
    carried_out: int = 0
    refused: int = 0  # by an epoch
    requests_lost: int = 0
    answers_lost: int = 0


@dataclass(slots=True)
class ClusterNetwork:
    """`processes` are those that run now, by broker id."""

    loop: VirtualLoop
    weather: NetworkWeather
    processes: dict[int, BrokerProcess]
    counts: NetworkCounts = field(default_factory=NetworkCounts)
    cut_links: set[tuple[int, int]] = field(default_factory=set)  # (controller, broker)
    held_until: dict[tuple[int, int], float] = field(default_factory=dict)
    _last_arrival: dict[tuple[int, int], float] = field(default_factory=dict)
    _waiting: dict[BrokerProcess, set[asyncio.Future[Any]]] = field(default_factory=dict)

    def arrival(self, link: tuple[int, int]) -> float:
        now = self.loop.time()
        due = max(now, self.held_until.get(link, 0.0)) + self.weather.delay_s()
        self._last_arrival[link] = max(self._last_arrival.get(link, 0.0), due)
        return self._last_arrival[link]

    def killed(self, process: BrokerProcess) -> None:
        """Whoever waits for its answer hears that the connection is gone."""
        for future in self._waiting.pop(process, ()):
            _refuse(future, "the broker is gone")

    def deliver(
        self,
        link: tuple[int, int],
        request: ControlRequest,
        answer: asyncio.Future[ControlResponse],
    ) -> None:
        """A request arrives where a broker listens, or should."""
        target = self.processes.get(link[1])
        lost = self.weather.random.random() < self.weather.lost_requests
        if target is None or not target.is_listening or link in self.cut_links or lost:
            self.counts.requests_lost += 1
            _refuse(answer, "connection refused")
            return
        self._waiting.setdefault(target, set()).add(answer)
        self.loop.start(self._carry_out(link, target, request, answer), target.owner, "request")

    async def _carry_out(
        self,
        link: tuple[int, int],
        target: BrokerProcess,
        request: ControlRequest,
        answer: asyncio.Future[ControlResponse],
    ) -> None:
        response = await target.carry_out(request)
        self.counts.carried_out += 1
        self.counts.refused += bool(response.error_code)
        self._waiting.get(target, set()).discard(answer)
        lost = self.weather.random.random() < self.weather.lost_answers
        if lost or link in self.cut_links:
            self.counts.answers_lost += 1
            self.loop.call_later(0.01, _refuse, answer, "connection reset", context=nobody())
        else:
            delay_s = self.weather.delay_s()
            self.loop.call_later(delay_s, _accept, answer, response, context=nobody())

    def deliver_frame(
        self, link: tuple[int, int], frame: bytearray, answer: asyncio.Future[bytes]
    ) -> None:
        """As `deliver`, for a request of brokers to each other."""
        target = self.processes.get(link[1])
        lost = self.weather.random.random() < self.weather.lost_requests
        if target is None or not target.is_listening or link in self.cut_links or lost:
            self.counts.requests_lost += 1
            _refuse(answer, "connection refused")
            return
        self._waiting.setdefault(target, set()).add(answer)
        self.loop.start(self._answer_frame(link, target, frame, answer), target.owner, "request")

    async def _answer_frame(
        self,
        link: tuple[int, int],
        target: BrokerProcess,
        frame: bytearray,
        answer: asyncio.Future[bytes],
    ) -> None:
        try:
            data = await target.answer(frame)
        except ProtocolError as error:
            self.loop.call_later(0.001, _refuse, answer, repr(error), context=nobody())
            return
        self._waiting.get(target, set()).discard(answer)
        lost = self.weather.random.random() < self.weather.lost_answers
        back = (link[1], link[0])
        if lost or link in self.cut_links or back in self.cut_links:
            self.counts.answers_lost += 1
            self.loop.call_later(0.01, _refuse, answer, "connection reset", context=nobody())
        else:
            delay_s = self.weather.delay_s()
            self.loop.call_later(delay_s, _accept, answer, data, context=nobody())


class SimulatedChannels:
    """Fulfils Channels: the ways of one process."""

    def __init__(self, network: ClusterNetwork, sender: BrokerProcess) -> None:
        self._network = network
        self._sender = sender

    def connect(self, broker: Broker) -> SimulatedChannel:
        return SimulatedChannel(self._network, self._sender, broker.broker_id)

    def client(self, broker: Broker) -> SimulatedClient:
        return SimulatedClient(self._network, self._sender, broker.broker_id)


class SimulatedClient:
    """Fulfils PeerClient: any request from one process to the broker at an address. The requests of
    a client arrive in their order; where one is lost, the connection has ended.
    """

    def __init__(self, network: ClusterNetwork, sender: BrokerProcess, broker_id: int) -> None:
        self._network = network
        self._sender = sender
        self._broker_id = broker_id

    async def send(
        self,
        request: Message,
        *,
        timeout_ms: float | None = None,
        highest_version: int | None = None,
    ) -> Any:
        network = self._network
        network.counts.requests += 1
        link = (self._sender.broker_id, self._broker_id)
        version = request.spec.versions.highest
        if highest_version is not None:
            version = min(version, highest_version)
        frame = frame_of(request, version)
        answer: asyncio.Future[bytes] = network.loop.create_future()
        if link in network.cut_links:
            await asyncio.sleep(network.weather.delay_s())
            raise ConnectionResetError("the network is cut")
        when = network.arrival(link)
        network.loop.call_at(when, network.deliver_frame, link, frame, answer, context=nobody())
        limit_s = SOCKET_TIMEOUT_S if timeout_ms is None else timeout_ms / 1000
        async with asyncio.timeout(limit_s):
            data = await answer
        return response_of(request, version, data)

    async def serves(self, key: int, version: int, *, timeout_ms: float | None = None) -> bool:
        return True

    def close(self) -> None:
        """Keep the answers to what has been asked."""


class SimulatedChannel:
    """Fulfils BrokerChannel: from the process of a controller to an address."""

    def __init__(self, network: ClusterNetwork, sender: BrokerProcess, broker_id: int) -> None:
        self._network = network
        self._sender = sender
        self._broker_id = broker_id

    async def send(self, request: ControlRequest) -> ControlResponse:
        network, sender = self._network, self._sender
        network.counts.requests += 1
        if self._broker_id == sender.broker_id:
            return await sender.carry_out(request)
        link = (sender.broker_id, self._broker_id)
        answer: asyncio.Future[ControlResponse] = network.loop.create_future()
        if link in network.cut_links:
            await asyncio.sleep(network.weather.delay_s())
            raise ConnectionResetError("the network is cut")
        when = network.arrival(link)
        network.loop.call_at(when, network.deliver, link, request, answer, context=nobody())
        async with asyncio.timeout(SOCKET_TIMEOUT_S):
            return await answer

    def close(self) -> None:
        """Leave requests under way: they arrive all the same."""


def _accept(answer: asyncio.Future[Any], response: object) -> None:
    if not answer.done():
        answer.set_result(response)


def _refuse(answer: asyncio.Future[Any], reason: str) -> None:
    if not answer.done():
        answer.set_exception(ConnectionResetError(reason))
