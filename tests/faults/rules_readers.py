"""Readers of a simulated cluster with access rules: each has a session of fetches at one broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kbroker.acl.acl import AclOperation, AclResource
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.request import ConnectionInfo
from tests.fakes.acls.acl_model import Question
from tests.faults.cluster_process import BrokerProcess
from tests.faults.rules_model import TOPIC, allows

if TYPE_CHECKING:
    from tests.faults.rules_clients import RulesClients


class Reader:
    """A client with a session of fetches at one broker."""

    def __init__(
        self,
        clients: RulesClients,
        process: BrokerProcess,
        connection: ConnectionInfo,
        topics: list[str],
    ) -> None:
        self._clients = clients
        self.process = process
        self._connection = connection
        self._topics = topics
        self._session_id = 0
        self._epoch = 0
        self._moved = dict.fromkeys(topics, 0)  # offsets that the session does not know yet
        self.is_over = self.is_reading = False

    async def read(self, wait_ms: int) -> None:
        """One fetch, and what it must have shown."""
        clients, loop = self._clients, self._clients.loop
        self.is_reading = True
        request, self._moved = fetch_of(self._moved), {}
        request.session_id, request.session_epoch = self._session_id, self._epoch
        request.max_wait_ms, request.min_bytes = wait_ms, 1
        begin = loop.time()
        answer = await clients.ask(self.process, request, 12, self._connection)
        self.is_reading = False
        if answer is None or answer.error_code or not self.process.is_alive:
            self.is_over = True
            return
        self._session_id, self._epoch = answer.session_id, self._epoch + 1
        self.is_over = not answer.session_id
        rows = {row.topic: row.partitions[0] for row in answer.responses}
        clients.counts["fetches of a session"] += 1
        for name in self._topics:
            row = rows.get(name)
            self._check(name, row, begin, loop.time())
            if row is not None and row.records:
                self._moved[name] = row.high_watermark

    def _check(self, name: str, row: Any, begin: float, end: float) -> None:
        model = self._clients.model
        asked = Question(
            self._connection.principal,
            self._connection.peer_host,
            AclOperation.READ,
            AclResource(TOPIC, name),
        )
        was_refused = row is not None and row.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        moments = (begin, end) if was_refused else (end, end)
        may = [allows(view, asked) for view in model.views(self.process, *moments)]
        if all(may) if was_refused else not any(may):
            what = "refused" if was_refused else "let pass"
            text = f"{self.process} {what} a fetch of {name} in a session begun with {self._topics}"
            model.violate("session", f"{text}: {row}")


def fetch_of(offsets: Mapping[str, int]) -> FetchRequest:
    return FetchRequest(
        session_epoch=-1,
        min_bytes=0,
        max_bytes=1 << 20,
        topics=[
            FetchRequest.FetchTopic(
                topic=name,
                partitions=[
                    FetchRequest.FetchPartition(
                        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20
                    )
                ],
            )
            for name, offset in offsets.items()
        ],
    )
