"""What a handler sees, around a ReplicationCluster: runs a request through decode-free handler
calls.
"""

from __future__ import annotations

import asyncio
import inspect
from types import SimpleNamespace

from kbroker.apis.context import RequestContext, Services
from kbroker.config.socket_server_config import SocketServerConfig
from kbroker.coordinator.transaction.marker_writer import MarkerWriter
from kbroker.errors import ErrorCode
from kbroker.protocol.header import RequestHeader
from kbroker.protocol.request import ConnectionInfo
from tests.fakes.clusters.peers import no_peers
from tests.fakes.requests.received_answers import received
from tests.fakes.requests.transactional import Transactional
from tests.fakes.running.loop_turns import counting_turns

MARKER_TIMEOUT_MS = 1_000


class FakeTopics:
    """Creates topics through `create`, but for those in `refusals`; remembers what was asked for."""

    def __init__(self, create=lambda name: None) -> None:
        self.asked: list[str] = []
        self.create = create
        self.refusals: dict[str, ErrorCode] = {}

    async def auto_create(self, topics) -> dict[str, ErrorCode]:
        for topic in topics:
            self.asked.append(topic)
            if topic not in self.refusals:
                self.create(topic)
        return {topic: self.refusals.get(topic, ErrorCode.NONE) for topic in topics}


def connection(listener_name="PLAINTEXT", local_host="127.0.0.1", local_port=19092):
    return ConnectionInfo(
        connection_id="1",
        listener_name=listener_name,
        security_protocol="PLAINTEXT",
        local_host=local_host,
        local_port=local_port,
        peer_host="127.0.0.1",
        peer_port=50000,
    )


class ApiCaller:
    def __init__(self, cluster, *, auto_create=True, conn=None, peers=None) -> None:
        self.cluster = cluster
        self.ended = []  # transactions with offsets of groups
        self.topics = FakeTopics(cluster.lead)
        self.connection = conn or connection()
        server = SimpleNamespace(auto_create_topics_enable=auto_create)
        self.services = Services(
            replicas=cluster.replicas,
            groups=None,
            transactional=Transactional(
                markers=MarkerWriter(
                    cluster.replicas.hosted,
                    cluster.replicas.appends,
                    self.end_group_transaction,
                    cluster.time.now_ms,
                    MARKER_TIMEOUT_MS,
                ),
            ),
            metadata=cluster.metadata,
            topics=self.topics,
            configs=None,
            producer_ids=None,
            controller=None,
            control=None,
            peers=peers or no_peers(),
            forwarding=None,
            config=SimpleNamespace(server=server, socket_server=SocketServerConfig()),
            clock=cluster.time,
        )

    def end_group_transaction(self, partition, producer, control):
        """As a group coordinator that stores all markers."""
        self.ended.append((partition, producer, control))
        return ErrorCode.NONE

    def start(self, handler, request, version):
        """Return what the handler returns: a response, or an awaitable."""
        header = RequestHeader(0, version, 1, "client")
        return handler(RequestContext(header, self.connection, self.services), request)

    def __call__(self, handler, request, version):
        answer = self.start(handler, request, version)
        if inspect.isawaitable(answer):
            answer = self.cluster.loop.run_until_complete(asyncio.wait_for(answer, 5))
            return answer if getattr(answer, "memory", None) is None else received(answer, version)
        return answer

    def counting_turns(self, handler, request, version):
        """(response, turns of the loop that others had meanwhile)."""

        async def count():
            answer = self.start(handler, request, version)
            if not inspect.isawaitable(answer):
                return answer, 0
            return await counting_turns(answer)

        return self.cluster.loop.run_until_complete(count())
