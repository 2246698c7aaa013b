"""The network of a simulated cluster with clients: connections that carry bytes, and break.

Law: what one end of a connection sends arrives at the other in its order, late or never; a broker
answers the requests of a connection one after the other; the first message that is lost ends the
connection for all that is in flight on it, and what had arrived is carried out all the same. Where
a link is cut, messages are refused, vanish, or arrive when the cut is over, as TCP sends them again.

Brokers have positive numbers, clients negative ones. A link is (sender, receiver).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from kbroker.apis import registry
from kbroker.errors import ProtocolError
from kbroker.model import Broker
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode
from kbroker.protocol.header import decode_request_header
from kbroker.protocol.request import ConnectionInfo
from kbroker.protocol.schema import Message
from kbroker.replication.controller_requests.request_shapes import ControlRequest, ControlResponse
from tests.fakes.requests.request_frames import frame_of, response_of
from tests.fakes.running.virtual_loop import nobody
from tests.faults.cluster_network import SOCKET_TIMEOUT_S, ClusterNetwork
from tests.faults.cluster_process import CLIENTS, BrokerProcess

Link = tuple[int, int]
RECONNECT_BACKOFF_S = 0.05
_ORDERS = frozenset({ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA})


class CutKind(Enum):
    """What becomes of a message that meets a cut link."""

    REFUSED = "refused"
    VANISHES = "vanishes"
    HELD = "is held"


@dataclass(slots=True, eq=False)
class Cut:
    """One cut of one link; `held` is done when it ends."""

    kind: CutKind
    held: list[Callable[[], None]] = field(default_factory=list)


@dataclass(slots=True)
class ReplicationNetwork(ClusterNetwork):
    """`cuts` are made and ended by `cut` and `join`."""

    cuts: dict[Link, Cut] = field(default_factory=dict)
    connections: list[Connection] = field(default_factory=list)
    on_bytes: Callable[[Link, int], None] = lambda _link, _size: None
    on_request: Callable[[Link, int], None] = lambda _link, _api_key: None  # sets out
    cut_messages: int = 0
    broken: int = 0
    opened: int = 0

    def next_number(self) -> int:
        """The number of one more connection."""
        self.opened += 1
        return self.opened

    def cut(self, link: Link, kind: CutKind) -> Cut:
        """Let nothing through, until this very cut is joined."""
        before = self.cuts.get(link)
        cut = self.cuts[link] = Cut(kind)
        if before is not None:
            cut.held = before.held
        return cut

    def join(self, link: Link, cut: Cut | None = None) -> None:
        """End a cut; of one that another has replaced nothing is left to end."""
        now = self.cuts.get(link)
        if now is None or (cut is not None and now is not cut):
            return
        del self.cuts[link]
        for deliver in now.held:
            deliver()

    def open_to_all(self) -> None:
        """End all cuts."""
        for link in sorted(self.cuts):
            self.join(link)

    def killed(self, process: BrokerProcess, *, silently: bool = False) -> None:
        """Its connections end: the others hear of it at once, or when they ask why it is silent."""
        delay_s = self.weather.random.random() * (SOCKET_TIMEOUT_S if silently else 0.01)
        for connection in [c for c in self.connections if c.target is process]:
            self.loop.call_later(delay_s, connection.end, "the broker is gone", context=nobody())

    def carry(self, link: Link, lane: Lane, deliver: Callable[[], None], fail: Fail) -> None:
        """A message sets out; `deliver` when it arrives, `fail` when its sender sees that it cannot."""
        weather = self.weather
        cut = self.cuts.get(link)
        if cut is None:
            if weather.random.random() < weather.lost_requests:
                self.counts.requests_lost += 1
                self._later(weather.delay_s(), lambda: fail("connection reset"))
                return
            self._at(
                lane.arrival(max(self.loop.time(), self.held(link)) + weather.delay_s()), deliver
            )
            return
        self.cut_messages += 1
        if cut.kind is CutKind.REFUSED:
            self._later(weather.delay_s(), lambda: fail("no route to host"))
        elif cut.kind is CutKind.HELD:
            cut.held.append(
                lambda: self._at(lane.arrival(self.loop.time() + weather.delay_s()), deliver)
            )

    def held(self, link: Link) -> float:
        """Until when what is sent now is held up."""
        return self.held_until.get(link, 0.0)

    def forget(self, connection: Connection) -> None:
        """A connection has ended."""
        self.broken += 1
        self.connections = [each for each in self.connections if each is not connection]

    def _at(self, when: float, action: Callable[[], None]) -> None:
        self.loop.call_at(when, action, context=nobody())

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self.loop.call_later(seconds, action, context=nobody())


Fail = Callable[[str], None]


class Lane:
    """One way of a connection: each message arrives after the one before."""

    def __init__(self) -> None:
        self._last = 0.0

    def arrival(self, when: float) -> float:
        self._last = max(self._last, when)
        return self._last


class Connection:
    """From a node to a process that listened when it was opened."""

    def __init__(self, network: ReplicationNetwork, source: int, target: BrokerProcess) -> None:
        self.source = source
        self.target = target
        self.is_open = True
        self._network = network
        self._info = _info(source, target.broker_id, network.next_number())
        self._there, self._back = Lane(), Lane()
        self._in_flight: dict[asyncio.Future[bytes], None] = {}
        self._arrived: deque[tuple[bytearray, asyncio.Future[bytes]]] = deque()
        self._is_working = False
        network.connections.append(self)

    @property
    def in_flight(self) -> int:
        """Requests without an answer so far."""
        return len(self._in_flight)

    def send(self, frame: bytearray) -> asyncio.Future[bytes]:
        """Send a request; the answer's bytes. ConnectionResetError when the connection ends."""
        network = self._network
        network.counts.requests += 1
        future: asyncio.Future[bytes] = network.loop.create_future()
        if not self.is_open:
            _refuse(future, "connection reset")
            return future
        self._in_flight[future] = None
        link = (self.source, self.target.broker_id)
        network.on_request(link, _api_key(frame))
        network.carry(link, self._there, lambda: self._arrive(frame, future), self.end)
        return future

    def end(self, reason: str) -> None:
        """Both ends see that it is over."""
        if not self.is_open:
            return
        self.is_open = False
        for future in self._in_flight:
            _refuse(future, reason)
        self._in_flight.clear()
        self._network.forget(self)

    # ---- at the broker

    def _arrive(self, frame: bytearray, future: asyncio.Future[bytes]) -> None:
        target = self.target
        if not target.is_listening or target.has_ended or not target.is_alive:
            self.end("connection refused")
            return
        self._arrived.append((frame, future))
        if not self._is_working:
            self._is_working = True
            self._network.loop.start(self._work(), target.owner, "request")

    async def _work(self) -> None:
        while self._arrived:
            if not self.target.is_listening:  # its logs may be closed
                self.end("the broker stops")
                return
            frame, future = self._arrived.popleft()
            try:
                data = await self._answer(frame)
            except ProtocolError as error:
                self.end(repr(error))
                return
            link = (self.target.broker_id, self.source)
            self._network.counts.carried_out += 1
            self._network.carry(
                link, self._back, lambda f=future, d=data: self._take(f, d), self.end
            )
        self._is_working = False

    async def _answer(self, frame: bytearray) -> bytes:
        target = self.target
        if _api_key(frame) not in _ORDERS:
            return await target.answer(frame, self._info)
        epoch = target.broker_epoch
        data = await target.answer(frame, self._info)
        request, response = order_of(frame, data)
        target.on_request(target, request, epoch, response)
        return data

    def _take(self, future: asyncio.Future[bytes], data: bytes) -> None:
        self._in_flight.pop(future, None)
        if self.is_open and not future.done():
            future.set_result(data)


class SimulatedClient:
    """Fulfils PeerClient, as BrokerClient does: one connection, opened when it is needed, ended by
    the first request that is not answered in time.
    """

    def __init__(
        self, network: ReplicationNetwork, source: int, broker_id: int, client_id: str = ""
    ) -> None:
        self.broker_id = broker_id
        self._network = network
        self._source = source
        self._client_id = client_id or str(source)
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()
        self._failed_s: float | None = None

    async def send(
        self,
        request: Message,
        *,
        timeout_ms: float | None = None,
        highest_version: int | None = None,
    ) -> Any:
        """The answer. Raises OSError."""
        version = version_of(request, highest_version)
        frame = frame_of(request, version, self._client_id)
        limit_s = SOCKET_TIMEOUT_S if timeout_ms is None else timeout_ms / 1000
        connection: Connection | None = None
        try:
            async with asyncio.timeout(limit_s):
                async with self._turn:
                    connection = await self._opened()
                    answer = connection.send(frame)
                data = await answer
        except TimeoutError:
            if connection is not None:
                connection.end("there was no answer in time")
            raise
        except asyncio.CancelledError:
            if connection is not None and connection.in_flight <= 1:
                connection.end("its client has gone")
            raise
        return response_of(request, version, data)

    async def serves(self, key: int, version: int, *, timeout_ms: float | None = None) -> bool:
        """Every broker here is of the same release."""
        return version in registry.registered()[key].versions

    def close(self) -> None:
        """Let what has arrived be carried out."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.end("the connection was closed")

    async def _opened(self) -> Connection:
        if self._connection is not None and self._connection.is_open:
            return self._connection
        network, now = self._network, self._network.loop.time()
        if self._failed_s is not None and self._failed_s + RECONNECT_BACKOFF_S > now:
            await asyncio.sleep(self._failed_s + RECONNECT_BACKOFF_S - now)
        self._failed_s = network.loop.time()
        link = (self._source, self.broker_id)
        for way in (link, link[::-1]):
            cut = network.cuts.get(way)
            if cut is not None and cut.kind is not CutKind.REFUSED:
                await network.loop.create_future()  # until the time is over
        await asyncio.sleep(network.weather.delay_s())
        target = network.processes.get(self.broker_id)
        if link in network.cuts or link[::-1] in network.cuts:
            raise ConnectionRefusedError("no route to host")
        if target is None or not target.is_listening or not target.is_alive:
            raise ConnectionRefusedError("nobody listens there now")
        self._failed_s = None
        self._connection = Connection(network, self._source, target)
        return self._connection


class NetworkChannels:
    """Fulfils Channels: the ways of one process."""

    def __init__(self, network: ReplicationNetwork, sender: BrokerProcess) -> None:
        self._network = network
        self._sender = sender

    def connect(self, broker: Broker) -> OrdersChannel | OwnOrders:
        if broker.broker_id == self._sender.broker_id:
            return OwnOrders(self._sender)
        return OrdersChannel(self.client(broker))

    def client(self, broker: Broker) -> SimulatedClient:
        return SimulatedClient(self._network, self._sender.broker_id, broker.broker_id)


class OwnOrders:
    """Fulfils BrokerChannel: a controller orders its own broker."""

    def __init__(self, process: BrokerProcess) -> None:
        self._process = process

    async def send(self, request: ControlRequest) -> ControlResponse:
        return await self._process.carry_out(request)

    def close(self) -> None:
        """There is nothing to close."""


class OrdersChannel:
    """Fulfils BrokerChannel: a controller orders another broker."""

    def __init__(self, client: SimulatedClient) -> None:
        self._client = client

    async def send(self, request: ControlRequest) -> ControlResponse:
        response: ControlResponse = await self._client.send(request)
        return response

    def close(self) -> None:
        self._client.close()


def version_of(request: Message, highest_version: int | None = None) -> int:
    """The highest version that brokers of this release serve."""
    key = request.spec.key
    assert key is not None
    highest = registry.registered()[key].versions.highest
    return highest if highest_version is None else min(highest, highest_version)


def order_of(frame: bytearray, answer: bytes) -> tuple[ControlRequest, ControlResponse]:
    """A controller's request and its answer, from their bytes."""
    view = memoryview(frame)
    header, offset = decode_request_header(view)
    cls = registry.registered()[header.api_key].request_class
    request, _ = decode(cls, header.api_version, view, offset)
    return request, response_of(request, header.api_version, answer)


def _api_key(frame: bytearray) -> int:
    return int.from_bytes(frame[:2])


def _info(source: int, broker_id: int, number: int) -> ConnectionInfo:
    listener, port = ("PLAINTEXT", 9092) if source > 0 else (CLIENTS, 9093)
    local, peer = f"10.0.0.{broker_id}", f"10.0.{int(source < 0)}.{abs(source)}"
    return ConnectionInfo(
        connection_id=f"{local}:{port}-{peer}:50000-0",
        listener_name=listener,
        security_protocol="PLAINTEXT",
        local_host=local,
        local_port=port,
        peer_host=peer,
        peer_port=50000,
        number=number,
    )


def _refuse(answer: asyncio.Future[Any], reason: str) -> None:
    if not answer.done():
        answer.set_exception(ConnectionResetError(reason))
