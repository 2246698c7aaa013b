"""Brokers of a controller cluster that answer requests by their bytes, and ask each other in memory.

A test may put `faults` before what brokers ask each other: each is called with the request, before
it is carried out, and may raise or wait; or after it, where it is marked with `afterwards`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Callable
from typing import Any

from kbroker.admin.producer_id_manager import ProducerIdManager
from kbroker.apis import registry
from kbroker.apis.context import Services
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.config.kafka_config import KafkaConfig
from kbroker.model import Broker
from kbroker.peers.forwarding_manager import ForwardingManager
from kbroker.peers.node_to_controller_channel import NodeToControllerChannel
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.header import (
    API_VERSIONS_KEY,
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
)
from kbroker.protocol.request import ConnectionInfo, Request, Response
from kbroker.protocol.schema import Message, response_class
from tests.fakes.clusters.controller_cluster import ControllerCluster, FakeBroker
from tests.fakes.clusters.peers import peers_over
from tests.fakes.requests.recording_replier import local_connection
from tests.fakes.running.virtual_loop import LoopClock, VirtualLoop

CORRELATION_ID = 4711
Fault = Callable[[Message], Any]


class ForwardingCluster(ControllerCluster):
    """`asked` holds what brokers asked each other: who, whom, what."""

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        super().__init__(KafkaConfig.for_profile("dev", settings or {}))
        self.asked: list[tuple[int, int, str]] = []
        self.faults: deque[Fault] = deque()
        self.api_versions_highest = 5  # what brokers tell each other
        self.peer_listeners = ["PLAINTEXT"]

    def make_broker(self, broker_id: int, rack: str | None) -> ForwardingBroker:
        return ForwardingBroker(self, broker_id, rack)

    def broker(self, broker_id: int) -> ForwardingBroker:
        broker = self.brokers[broker_id]
        assert isinstance(broker, ForwardingBroker)
        return broker


class ForwardingBroker(FakeBroker):
    """A fake broker with the real path of requests."""

    def __init__(self, cluster: ForwardingCluster, broker_id: int, rack: str | None) -> None:
        super().__init__(cluster, broker_id, rack)
        self.forwarding_cluster = cluster
        self.apis_by_key = dict(registry.registered())
        self.opened = 0  # connections to other brokers
        self.channel = NodeToControllerChannel(
            broker_id, self.controller, self._live_broker, self._open_client
        )
        nothing: Any = None
        clock = LoopClock(VirtualLoop())
        self.services = Services(
            replicas=nothing,
            groups=nothing,
            transactional=nothing,
            metadata=self.metadata,
            topics=self.topics,
            configs=self.configs,
            producer_ids=ProducerIdManager(self.zk, broker_id),
            controller=self.controller,
            control=nothing,
            peers=peers_over(self.zk.tree, clock, *cluster.peer_listeners),
            config=cluster.config,
            clock=clock,
            forwarding=ForwardingManager(self.channel, self.waiter),
        )
        self.apis = KafkaApis(self.apis_by_key, self.services)

    async def ask(
        self, request: Message, version: int, connection: ConnectionInfo | None = None
    ) -> Any:
        """Return the answer that a client gets."""
        key = request.spec.key
        assert key is not None
        head = encode_request_header(RequestHeader(key, version, CORRELATION_ID, "client"))
        frame = memoryview(bytearray(encode(request, version, head)))
        header, offset = decode_request_header(frame)
        answer = self.apis.handle(
            Request(header, frame, offset, connection or local_connection(), len(frame))
        )
        if inspect.isawaitable(answer):
            answer = await answer
        assert isinstance(answer, Response)
        data = b"".join(bytes(piece) for piece in answer.pieces)  # type: ignore[arg-type]
        correlation_id, offset = decode_response_header(data, key, version)
        assert correlation_id == CORRELATION_ID
        response, end = decode(response_class(type(request)), version, data, offset)
        assert end == len(data)
        return response

    def _live_broker(self, broker_id: int) -> Broker | None:
        return self.metadata.broker(broker_id)  # in whose place a test may put another

    def _open_client(self, target: Broker) -> MemoryClient:
        self.opened += 1
        return MemoryClient(self.forwarding_cluster, self.broker_id, target.broker_id)


class MemoryClient:
    """A BrokerClient that needs no connection."""

    def __init__(self, cluster: ForwardingCluster, from_id: int, to_id: int) -> None:
        self._cluster = cluster
        self._from_id = from_id
        self._to_id = to_id
        self.is_closed = False

    async def serves(self, key: int, version: int, *, timeout_ms: float | None = None) -> bool:
        assert key == API_VERSIONS_KEY
        return version <= self._cluster.api_versions_highest

    async def send(
        self,
        request: Message,
        *,
        timeout_ms: float | None = None,
        highest_version: int | None = None,
    ) -> Any:
        assert not self.is_closed
        assert timeout_ms is not None
        cluster = self._cluster
        cluster.asked.append((self._from_id, self._to_id, type(request).__name__))
        fault = cluster.faults.popleft() if cluster.faults else None
        async with asyncio.timeout(timeout_ms / 1000):
            if fault is not None and not getattr(fault, "is_afterwards", False):
                await _apply(fault, request)
                fault = None
            if self._to_id not in cluster.brokers:
                raise ConnectionRefusedError(f"broker {self._to_id}")
            version = request.spec.versions.highest
            if highest_version is not None:
                version = min(version, highest_version)
            answer = await cluster.broker(self._to_id).ask(request, version)
            if fault is not None:
                await _apply(fault, request)
            return answer

    def close(self) -> None:
        self.is_closed = True


def afterwards(fault: Fault) -> Fault:
    """The fault strikes when the request has been carried out."""

    def struck(request: Message) -> Any:
        return fault(request)

    struck.is_afterwards = True  # type: ignore[attr-defined]
    return struck


async def _apply(fault: Fault, request: Message) -> None:
    outcome = fault(request)
    if inspect.isawaitable(outcome):
        await outcome


def cut(_request: Message) -> None:
    """The connection is cut."""
    raise ConnectionResetError("closed the connection instead of an answer")


async def hang(_request: Message) -> None:
    """Nothing is ever answered."""
    await asyncio.Event().wait()
