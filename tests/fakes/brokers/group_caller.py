"""Sends requests to the group handlers as they arrive: encoded in a version, answered in it."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from types import SimpleNamespace
from typing import Any

from kbroker.apis.context import RequestContext, Services
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.header import RequestHeader
from kbroker.protocol.request import ConnectionInfo
from kbroker.protocol.schema import Message
from tests.fakes.brokers.consenting_coordinator import ConsentingCoordinator, LedEverywhere
from tests.fakes.brokers.group_broker import LISTENER, GroupBroker
from tests.fakes.clusters.peers import no_peers
from tests.fakes.requests.denying_authorizer import ask
from tests.fakes.requests.received_answers import received
from tests.fakes.requests.transactional import Transactional


class GroupCaller:
    def __init__(self, broker: GroupBroker | None = None) -> None:
        self.broker = broker or GroupBroker()
        self.transactions = ConsentingCoordinator()
        self.services = Services(
            replicas=LedEverywhere(),
            groups=self.broker.groups,
            transactional=Transactional(participation=self.transactions),
            metadata=self.broker.metadata,
            topics=None,
            configs=None,
            producer_ids=None,
            controller=None,
            control=None,
            peers=no_peers(),
            forwarding=None,
            config=SimpleNamespace(group=self.broker.config),
            clock=self.broker.time,
        )
        self.connection = ConnectionInfo(
            connection_id="1",
            listener_name=LISTENER,
            security_protocol="PLAINTEXT",
            local_host="127.0.0.1",
            local_port=9092,
            peer_host="127.0.0.1",
            peer_port=50000,
        )

    def __call__(self, request: Message, version: int) -> Any:
        """The answer as a client of that version reads it; to be called outside of a loop."""
        answer = asyncio.run(asyncio.wait_for(self.answer(request, version), 5))
        return received(answer, version)

    def through_stages(self, request: Message, version: int) -> Any:
        """As a call, through all that stands before the handlers."""
        return asyncio.run(asyncio.wait_for(ask(self.services, request, version), 5))

    async def answer(self, request: Message, version: int) -> Any:
        """Return the handler's answer."""
        module = type(request).__module__.rpartition(".")[2]
        handle = importlib.import_module(f"kbroker.apis.{module}").handle
        arrived, _ = decode(type(request), version, encode(request, version))
        context = RequestContext(
            RequestHeader(0, version, 1, "raw"), self.connection, self.services
        )

        answer = handle(context, arrived)
        return await answer if inspect.isawaitable(answer) else answer
