"""A request context over one broker of a controller cluster, for handlers that administer it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from kbroker.admin.producer_id_manager import ProducerIdManager
from kbroker.apis.context import RequestContext, Services
from kbroker.peers.forwarding_manager import ForwardingManager
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.header import RequestHeader
from tests.fakes.clusters.controller_cluster import FakeBroker
from tests.fakes.clusters.peers import no_peers
from tests.fakes.requests.received_answers import received
from tests.fakes.requests.recording_replier import local_connection
from tests.fakes.running.loop_turns import counting_turns

Handle = Callable[[Any, Any], Awaitable[Any]]


class AdminClient:
    """Sends requests to one broker's handlers, over the wire format in both directions."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self._producer_ids = ProducerIdManager(broker.zk, broker.broker_id)
        no_channel: Any = None
        self._forwarding = ForwardingManager(no_channel, broker.waiter)

    async def ask(self, handle: Handle, request: Any, version: int) -> Any:
        header = RequestHeader(request.spec.key, version, 1, "client")
        context = RequestContext(header, local_connection(), self.services)
        arrived, _ = decode(type(request), version, encode(request, version))
        response = handle(context, arrived)
        return received(await response if inspect.isawaitable(response) else response, version)

    async def counting_turns(self, handle: Handle, request: Any, version: int) -> tuple[Any, int]:
        """(response, turns of the loop that others had meanwhile)."""
        return await counting_turns(self.ask(handle, request, version))

    @property
    def services(self) -> Services:
        """The broker's parts, as handlers see them."""
        nothing: Any = None
        return Services(
            replicas=nothing,
            groups=nothing,
            transactional=nothing,
            metadata=self.broker.metadata,
            topics=self.broker.topics,
            configs=self.broker.configs,
            producer_ids=self._producer_ids,
            controller=self.broker.controller,
            control=nothing,
            peers=no_peers(),
            forwarding=self._forwarding,
            config=self.broker.cluster.config,
            clock=nothing,
        )
