"""What a load needs at a broker before it begins: topics, producer ids, members of groups, fetch
sessions.
"""

from __future__ import annotations

import itertools
from typing import Any

from benchmarks import raw_client
from benchmarks.answer_places import (
    FETCH,
    FIND,
    INIT,
    JAVA_FETCH,
    JOIN,
    SYNC,
    VERSIONS,
    first_difference,
    place_of_error,
)
from benchmarks.processes import RunningBroker
from benchmarks.raw_client import RawClient, Session, fetch_frame
from kbroker.protocol import codec
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kbroker.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kbroker.protocol.schema import Message

_BUSY = frozenset({14, 15, 16})  # a coordinator that is about to be there
_MEMBER_ID_REQUIRED = 79
_SESSION_MS = 300_000  # the most that kfake takes
_names = itertools.count()


def new_name() -> str:
    """A name that no other load has, always of the same length."""
    return f"load-{next(_names):06}"


def new_topic(broker: RunningBroker, partitions: int = 1) -> str:
    """Create a topic with a name that no other load has."""
    name = new_name()
    raw_client.create_topic(broker.address, name, partitions)
    return name


class FetchSession:
    """A fetch session for partition 0, at epoch 1."""

    def __init__(self, address: tuple[str, int], topic: str) -> None:
        self._topic_id = raw_client.topic_id_of(address, topic)
        client = RawClient(address)
        client.send(self._frame(Session(0, 0), 0, 0))
        answer: Any = codec.decode(FetchResponse, JAVA_FETCH, bytes(client.receive()), 5)[0]
        client.close()
        if answer.error_code or not answer.session_id:
            raise RuntimeError(f"no fetch session: {answer.error_code}")
        self._session_id = answer.session_id
        self.epoch_at = first_difference(
            self._frame(Session(answer.session_id, 0), 0, 0),
            self._frame(Session(answer.session_id, -1), 0, 0),
        )
        # An answer has a partition only if there is news of it, but always an error of its own.
        self.error_at = place_of_error(
            lambda code: FetchResponse(error_code=code), FETCH, JAVA_FETCH
        )

    def frame(self, offset: int, max_wait_ms: int, max_bytes: int = 1 << 20) -> bytes:
        """A Fetch of the first epoch."""
        return self._frame(Session(self._session_id, 1), offset, max_wait_ms, max_bytes)

    def _frame(
        self, session: Session, offset: int, max_wait_ms: int, max_bytes: int = 1 << 20
    ) -> bytes:
        return fetch_frame(
            "", offset, max_wait_ms, max_bytes, JAVA_FETCH,
            topic_id=self._topic_id, session=session,
        )  # fmt: skip


class Group:
    """A group whose only member has joined, and whose session is long."""

    def __init__(self, broker: RunningBroker) -> None:
        self.name, self.member = new_name(), ""
        client = RawClient(broker.address)
        found = FindCoordinatorRequest(key=self.name)
        while _call(client, found, FIND, FindCoordinatorResponse).error_code:
            continue
        joined = self._join(client)
        if joined.error_code == _MEMBER_ID_REQUIRED:
            self.member = joined.member_id
            joined = self._join(client)
        self.generation, self.member = joined.generation_id, joined.member_id
        mine = SyncGroupRequest.SyncGroupRequestAssignment(member_id=self.member)
        request = SyncGroupRequest(
            group_id=self.name,
            generation_id=self.generation,
            member_id=self.member,
            assignments=[mine],
        )
        synced = _call(client, request, SYNC, SyncGroupResponse)
        client.close()
        if joined.error_code or synced.error_code:
            raise RuntimeError(f"no member: {joined.error_code}, {synced.error_code}")

    def _join(self, client: RawClient) -> Any:
        request = JoinGroupRequest(
            group_id=self.name,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_SESSION_MS,
            member_id=self.member,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range")],
        )
        while True:
            answer = _call(client, request, JOIN, JoinGroupResponse)
            if answer.error_code not in _BUSY:
                return answer


def _call(client: RawClient, request: Message, key: int, answer: type[Message]) -> Any:
    return client.call(request, key, VERSIONS[key], answer)


def producer_id_from(client: RawClient) -> int:
    """The id of a new idempotent producer."""
    request = InitProducerIdRequest(transactional_id=None)
    while True:
        answer = _call(client, request, INIT, InitProducerIdResponse)
        if not answer.error_code:
            return int(answer.producer_id)
        if answer.error_code not in _BUSY:
            raise RuntimeError(f"no producer id: {answer.error_code}")
