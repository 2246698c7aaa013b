"""One Fetch request: the partitions it asks for, and how its answer is put together.

Law: owned by the event loop. Everything is done for some partitions at a time: `add_topics`,
`forget`, `find_names` and `add` take as many as the caller handles in one turn. A request of a few
partitions is done at once (`of`, `response`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.request import ConnectionInfo
from kbroker.replication.reads.fetch_params import NO_EPOCH, FetchPartition
from kbroker.replication.reads.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchOrigin,
    FetchSession,
    PartitionData,
    TopicName,
    find_names,
    forgotten_keys,
    name_partitions,
    note_news,
    session_key,
)
from kbroker.replication.reads.fetch_session_cache import FetchSessions
from kbroker.replication.reads.quiet_partitions import QuietPartitions

NO_SESSION = 0
FIRST_VERSION_WITH_TOPIC_IDS = 13
News = list[tuple[FetchPartition, PartitionData]]
ORIGINS = [[FetchOrigin(by_id, broker) for broker in (False, True)] for by_id in (False, True)]
"""By whether topics go by id, and whether a follower asks."""


class FetchContext:
    """The partitions of one request in the order they are read, and the answer to it."""

    __slots__ = (
        "_connection",
        "_epoch",
        "_epoch_after",
        "_named",
        "_sessions",
        "_topics",
        "asked_for",
        "is_counted",
        "origin",
        "pause_ms",
        "session",
    )

    def __init__(
        self,
        sessions: FetchSessions,
        request: FetchRequest,
        version: int,
        *,
        is_follower: bool,
        connection: ConnectionInfo | None = None,
    ) -> None:
        """The context before the topics are read. Raises the KafkaErrors of `take_up`."""
        self._sessions = sessions
        self._connection = connection
        self._named: dict[Hashable, FetchPartition] = {}
        self._topics: dict[Hashable, FetchResponse.FetchableTopicResponse] = {}
        self.is_counted = False  # against the limits of its client
        self.pause_ms = 0  # for which its client has to pause
        self.asked_for: list[FetchPartition] = []
        self.origin = origin = ORIGINS[version >= FIRST_VERSION_WITH_TOPIC_IDS][is_follower]
        self.session: FetchSession | None = None
        self._epoch = epoch = request.session_epoch
        self._epoch_after = NO_EPOCH  # in a session that goes on: of its next request
        if epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            self.session = session = sessions.take_up(request, origin, connection)
            self._epoch_after = session.epoch
        elif request.session_id != NO_SESSION:
            sessions.remove(request.session_id)

    @classmethod
    def of(
        cls,
        sessions: FetchSessions,
        request: FetchRequest,
        version: int,
        topic_name: TopicName,
        *,
        is_follower: bool,
        connection: ConnectionInfo | None = None,
    ) -> FetchContext:
        """The context of a request for a few partitions, ready to be read. Raises as the
        constructor.
        """
        context = cls(sessions, request, version, is_follower=is_follower, connection=connection)
        if context.session is None:
            named: dict[Hashable, FetchPartition] = {}
            name_partitions(request.topics, context.origin, topic_name, named)
            context.asked_for = list(named.values())
            return context
        context.add_topics(request.topics, topic_name)
        if request.forgotten_topics_data:
            context.forget(forgotten_keys(request.forgotten_topics_data, context.origin))
        context.ready(request)
        if context.session is not None and version >= FIRST_VERSION_WITH_TOPIC_IDS:
            find_names(context.asked_for, topic_name)
        return context

    @property
    def named(self) -> dict[Hashable, FetchPartition]:
        """The partitions named so far; empty once the request is `ready`."""
        return self._named

    @property
    def quiet(self) -> QuietPartitions | None:
        """The partitions of the session that are not read until something happens to them."""
        return None if self.session is None else self.session.quiet

    @property
    def is_over(self) -> bool:
        """Whether a later request of the session has come, so that nobody wants this answer."""
        session = self.session
        return session is not None and self._epoch_after not in (NO_EPOCH, session.epoch)

    # The request

    def add_topics(self, topics: Iterable[FetchRequest.FetchTopic], topic_name: TopicName) -> None:
        """Take some of the partitions that the request names."""
        named = {} if self._named else self._named
        name_partitions(topics, self.origin, topic_name, named)
        session = self.session
        if session is not None:
            for key, asked in named.items():
                session.name(key, asked)
        if named is not self._named:
            self._named.update(named)

    def forget(self, keys: Iterable[Hashable]) -> None:
        """Take some of the partitions that leave the session, after all that are named."""
        if self.session is not None:
            for key in keys:
                self.session.forget(key)

    def find_names(self, asked_for: Iterable[FetchPartition], topic_name: TopicName) -> None:
        """Look up names for some of `asked_for`: topics unknown so far may exist by now."""
        if self.session is not None and self.origin.uses_topic_ids:
            find_names(asked_for, topic_name)

    def ready(self, request: FetchRequest) -> None:
        """Set `asked_for`, now that the whole request was read.

        Raises KafkaError FETCH_SESSION_ID_NOT_FOUND if the session has become too large.
        """
        session = self.session
        if session is not None:
            if session.weight != session.counted and not self._sessions.count(session):
                self._sessions.remove(session.session_id)  # the client starts over
                raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            if session.partitions:
                self._named = {}
                quiet = session.quiet  # it has nothing new
                if quiet is not None:
                    self._sessions.note_fetch(quiet, _follower_of(request))
                to_read = session.partitions if quiet is None else quiet.noisy
                self.asked_for = list(to_read.values())
                return
            self._sessions.remove(session.session_id)
            self.session = None
        self.asked_for = list(self._named.values())
        self._named = {}

    # Its answer

    def response(self, answers: list[PartitionData]) -> FetchResponse:
        """The response with `answers`, which are in the order of `asked_for`."""
        if self.session is not None or self._epoch == INITIAL_EPOCH:
            if self.session is None:
                self.begin_response()
            self.add(self.asked_for, answers)
            return self.end()
        self._put(zip(self.asked_for, answers, strict=True))
        return self._made(responses=list(self._topics.values()))

    def begin_response(self) -> None:
        """Begin the response, and with it a new session if one is wanted and there is room."""
        if self._epoch == INITIAL_EPOCH:
            self.session = self._sessions.create(self.origin, self.asked_for, self._connection)

    def add(self, asked_for: list[FetchPartition], answers: list[PartitionData]) -> None:
        """Put some of the answers into the response, in the order of `asked_for`."""
        session, origin = self.session, self.origin
        if session is None:
            self._put(zip(asked_for, answers, strict=True))
        elif self._epoch == INITIAL_EPOCH:
            for asked, data in zip(asked_for, answers, strict=True):
                note_news(asked, data, has_records=bool(data.records))
                session.name(session_key(asked, origin), asked)
            self._put(zip(asked_for, answers, strict=True))
        elif not self.is_over:
            self._put(self.news(asked_for, answers))

    def news(self, asked_for: list[FetchPartition], answers: list[PartitionData]) -> News:
        """Note that the client of a session is sent some answers: those of them that are news to
        it. It goes on, and is not over.
        """
        session, news = self.session, []
        assert session is not None
        by_id = self.origin.uses_topic_ids
        for asked, data in zip(asked_for, answers, strict=True):
            has_records = bool(data.records)
            if note_news(asked, data, has_records=has_records):
                news.append((asked, data))
            if has_records or session.quiet is not None:
                place = asked.topic_partition
                session.answered((asked.topic_id.int, place[1]) if by_id else place, asked, data)
        return news

    def throttled(self) -> FetchResponse:
        """The answer to a client that has to pause: empty, and its session goes on as if nothing
        had been read.
        """
        session = self.session
        response = self._made()
        if session is not None:
            response.session_id = session.session_id
            if self.is_over:
                response.error_code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
        return response

    def with_news(self, news: News) -> FetchResponse:
        """The response to a request of a session, of which this is news."""
        self._put(news)
        return self.end()

    def end(self) -> FetchResponse:
        """The response with everything added so far."""
        session = self.session
        session_id = NO_SESSION if session is None else session.session_id
        if session is not None and self._epoch == INITIAL_EPOCH:
            if not self._sessions.count(session):
                self._sessions.remove(session_id)
                session_id = NO_SESSION
        elif self.is_over:  # another request of the session came while this one waited
            return self._made(
                error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session_id
            )
        return self._made(session_id=session_id, responses=list(self._topics.values()))

    def _made(self, **fields: Any) -> FetchResponse:
        response = FetchResponse(throttle_time_ms=self.pause_ms, **fields)
        response.is_counted = self.is_counted
        return response

    def _put(self, pairs: Iterable[tuple[FetchPartition, PartitionData]]) -> None:
        topics, by_id = self._topics, self.origin.uses_topic_ids
        for asked, data in pairs:
            key: Hashable = asked.topic_id.int if by_id else asked.topic_partition.topic
            topic = topics.get(key)
            if topic is not None:
                topic.partitions.append(data)
                continue
            topics[key] = FetchResponse.FetchableTopicResponse(
                topic=asked.topic_partition.topic, topic_id=asked.topic_id, partitions=[data]
            )


def _follower_of(request: FetchRequest) -> tuple[int, int]:
    """The broker id and epoch of the follower, from where the request's version puts them."""
    state = request.replica_state
    return max(request.replica_id, state.replica_id), state.replica_epoch
