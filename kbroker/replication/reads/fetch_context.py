"""One Fetch request: which partitions it asks for, and how its answer is put together.

Law: owned by the event loop. All is done for some of the partitions at a time: `add_topics`,
`forget`, `find_names` and `add` take what the caller can do in one turn, and a request of a few
partitions is done at once (`FetchSessions.context`, `response`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Protocol

from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.request import ConnectionInfo
from kbroker.replication.reads.fetch_params import FetchPartition
from kbroker.replication.reads.fetch_session import (
    INITIAL_EPOCH,
    FetchOrigin,
    FetchSession,
    PartitionData,
    TopicName,
    find_names,
    name_partitions,
    next_epoch,
    note_news,
    session_key,
)
from kbroker.replication.reads.quiet_partitions import QuietPartitions

NO_SESSION = 0


class SessionCache(Protocol):
    """Where sessions are kept (a FetchSessions)."""

    def create(
        self,
        origin: FetchOrigin,
        asked_for: list[FetchPartition],
        connection: ConnectionInfo | None,
    ) -> FetchSession | None:
        """A session for these; None when there is no room."""
        ...

    def count(self, session: FetchSession) -> bool:
        """Whether there is room for what it has become."""
        ...

    def note_fetch(self, quiet: QuietPartitions, follower: tuple[int, int]) -> None:
        """A follower fetches."""
        ...

    def remove(self, session_id: int) -> None:
        """End a session."""
        ...


class FetchContext:
    """What one request asks for, in the order in which it is read, and the answer to it."""

    __slots__ = (
        "_connection",
        "_epoch",
        "_named",
        "_sessions",
        "_topics",
        "asked_for",
        "origin",
        "session",
    )

    def __init__(
        self,
        sessions: SessionCache,
        origin: FetchOrigin,
        epoch: int,
        connection: ConnectionInfo | None,
        session: FetchSession | None = None,
    ) -> None:
        self._sessions = sessions
        self._epoch = epoch
        self._connection = connection
        self._named: dict[Hashable, FetchPartition] = {}
        self._topics: dict[Hashable, FetchResponse.FetchableTopicResponse] = {}
        self.origin = origin
        self.asked_for: list[FetchPartition] = []
        self.session = session

    @property
    def named(self) -> dict[Hashable, FetchPartition]:
        """Return what the request asks for, until it is `ready`."""
        return self._named

    @property
    def quiet(self) -> QuietPartitions | None:
        """Those of the session that are not asked for until something happens to them."""
        return None if self.session is None else self.session.quiet

    @property
    def is_over(self) -> bool:
        """Whether nobody wants the answer any more."""
        session = self.session
        return (
            session is not None
            and self._epoch != INITIAL_EPOCH
            and session.epoch != next_epoch(self._epoch)
        )

    # The request

    def add_topics(self, topics: Iterable[FetchRequest.FetchTopic], topic_name: TopicName) -> None:
        """Some of what the request asks for."""
        named = {} if self._named else self._named
        name_partitions(topics, self.origin, topic_name, named)
        session = self.session
        if session is not None:
            for key, asked in named.items():
                session.name(key, asked)
        if named is not self._named:
            self._named.update(named)

    def forget(self, keys: Iterable[Hashable]) -> None:
        """Some of what leaves the session, after what the request asks for."""
        if self.session is not None:
            for key in keys:
                self.session.forget(key)

    def find_names(self, asked_for: Iterable[FetchPartition], topic_name: TopicName) -> None:
        """Some of `asked_for`, of a session whose topics may be known by now."""
        if self.session is not None and self.origin.uses_topic_ids:
            find_names(asked_for, topic_name)

    def ready(self, request: FetchRequest) -> None:
        """The whole request has been looked at: `asked_for` is there.

        Raises KafkaError: FETCH_SESSION_ID_NOT_FOUND for a session that has become too large.
        """
        session = self.session
        if session is not None:
            if session.weight != session.counted and not self._sessions.count(session):
                self._sessions.remove(session.session_id)  # the client starts over
                raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            if session.partitions:
                self._named = {}
                if session.quiet is not None:
                    self._sessions.note_fetch(session.quiet, _follower_of(request))
                self.asked_for = list(session.to_read)
                return
            self._sessions.remove(session.session_id)
            self.session = None
        self.asked_for = list(self._named.values())
        self._named = {}

    # Its answer

    def response(self, answers: list[PartitionData]) -> FetchResponse:
        """The response for `answers`, which are in the order of `asked_for`."""
        if self.session is not None or self._epoch == INITIAL_EPOCH:
            self.begin_response()
            self.add(self.asked_for, answers)
            return self.end()
        self._tell(zip(self.asked_for, answers, strict=True))
        return FetchResponse(responses=list(self._topics.values()))

    def begin_response(self) -> None:
        """Start to tell the client: a new session begins with that, if there is room."""
        if self._epoch == INITIAL_EPOCH:
            self.session = self._sessions.create(self.origin, self.asked_for, self._connection)

    def add(self, asked_for: list[FetchPartition], answers: list[PartitionData]) -> None:
        """Some of the answers, in the order of `asked_for`."""
        session, origin = self.session, self.origin
        pairs = zip(asked_for, answers, strict=True)
        if session is None:
            self._tell(pairs)
        elif self._epoch == INITIAL_EPOCH:
            for asked, data in pairs:
                note_news(asked, data)
                session.name(session_key(asked, origin), asked)
            self._tell(zip(asked_for, answers, strict=True))
        elif not self.is_over:
            news, by_id = [], origin.uses_topic_ids
            for asked, data in pairs:
                if note_news(asked, data):
                    news.append((asked, data))
                place = asked.topic_partition
                session.answered((asked.topic_id, place[1]) if by_id else place, asked, data)
            self._tell(news)

    def end(self) -> FetchResponse:
        """The response with all that was added."""
        session = self.session
        session_id = NO_SESSION if session is None else session.session_id
        if session is not None and self._epoch == INITIAL_EPOCH:
            if not self._sessions.count(session):
                self._sessions.remove(session_id)
                session_id = NO_SESSION
        elif self.is_over:  # another request of the session went by while this one waited
            return FetchResponse(
                error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session_id
            )
        return FetchResponse(session_id=session_id, responses=list(self._topics.values()))

    def _tell(self, pairs: Iterable[tuple[FetchPartition, PartitionData]]) -> None:
        topics, by_id = self._topics, self.origin.uses_topic_ids
        for asked, data in pairs:
            key: Hashable = asked.topic_id if by_id else asked.topic_partition.topic
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = FetchResponse.FetchableTopicResponse(
                    topic=asked.topic_partition.topic, topic_id=asked.topic_id
                )
            topic.partitions.append(data)


def _follower_of(request: FetchRequest) -> tuple[int, int]:
    """The broker id and epoch of whoever asks, as its version says them."""
    state = request.replica_state
    return max(request.replica_id, state.replica_id), state.replica_epoch
