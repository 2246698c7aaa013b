"""Incremental fetch sessions (KIP-227): a client names its partitions once, later only what changed
of them.

A request's session epoch says what it wants: -1 no session; 0 a new session, naming all partitions;
n the n-th request of a session, naming partitions that are new or changed, and those to forget. The
answer to a request of a session leaves out partitions of which there is nothing new.

Law: owned by the event loop. The cache is bounded by `max.incremental.fetch.session.cache.slots`. A
full cache takes a new session in place of one that nobody used for two minutes, or of an older one
with fewer partitions: a big session saves more. A follower's takes the place of any consumer's, and
is never evicted for one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from random import randrange
from typing import NamedTuple
from uuid import UUID

from kbroker.clock import Clock
from kbroker.counters import Counter, CounterRegistry, MetricName
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ZERO_UUID, TopicPartition
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.replication.fetch_params import NO_EPOCH, FetchPartition
from kbroker.replication.quiet_partitions import QuietPartitions

PartitionData = FetchResponse.PartitionData
TopicName = Callable[[UUID], str | None]

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1
EVICTION_MS = 120_000  # a session is safe for so long after its creation and after each use
FIRST_VERSION_WITH_TOPIC_IDS = 13


class FetchOrigin(NamedTuple):
    """What a session must not mix: topics by id or by name, and who asks."""

    uses_topic_ids: bool
    is_follower: bool


class FetchSession:
    """The partitions of one client, in the order in which they are read, and the epoch of its next
    request.
    """

    __slots__ = (
        "created_ms",
        "epoch",
        "last_used_ms",
        "origin",
        "partitions",
        "quiet",
        "session_id",
    )

    def __init__(
        self,
        session_id: int,
        origin: FetchOrigin,
        now_ms: float,
        quiet: QuietPartitions | None = None,
    ) -> None:
        self.session_id = session_id
        self.origin = origin
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.partitions: dict[Hashable, FetchPartition] = {}
        self.quiet = quiet  # a follower's

    @property
    def to_read(self) -> Iterable[FetchPartition]:
        """The partitions of which there may be something new."""
        return (self.partitions if self.quiet is None else self.quiet.noisy).values()

    def name(self, key: Hashable, asked: FetchPartition) -> None:
        """Take over what a request says of a partition."""
        known = self.partitions.get(key)
        if known is None:
            known = self.partitions[key] = asked
        else:
            known.fetch_offset = asked.fetch_offset
            known.max_bytes = asked.max_bytes
            known.current_leader_epoch = asked.current_leader_epoch
            known.last_fetched_epoch = asked.last_fetched_epoch
            known.log_start_offset = asked.log_start_offset
        if self.quiet is not None:
            self.quiet.named(key, known)

    def forget(self, key: Hashable) -> None:
        """Fetch a partition no more."""
        known = self.partitions.pop(key, None)
        if self.quiet is not None and known is not None:
            self.quiet.forgotten(key, known)

    def answered(self, key: Hashable, asked: FetchPartition, data: PartitionData) -> None:
        """The client is told `data`. A busy partition goes to the end of the line, so that it does
        not starve the others.
        """
        if self.quiet is not None:
            self.quiet.answered(key, asked, data)
        elif data.records is not None and len(data.records) and self.partitions.get(key) is asked:
            del self.partitions[key]
            self.partitions[key] = asked

    def close(self) -> None:
        """It is used no more."""
        if self.quiet is not None:
            self.quiet.end_all()


class FetchContext:
    """One request's partitions, and how its answer is put together."""

    __slots__ = ("_epoch", "_sessions", "asked_for", "origin", "session")

    def __init__(
        self,
        sessions: FetchSessions,
        origin: FetchOrigin,
        asked_for: list[FetchPartition],
        session: FetchSession | None = None,
        *,
        epoch: int = FINAL_EPOCH,
    ) -> None:
        self._sessions = sessions
        self._epoch = epoch
        self.origin = origin
        self.asked_for = asked_for
        self.session = session

    @property
    def quiet(self) -> QuietPartitions | None:
        """Those of the session that are not asked for until something happens to them."""
        return None if self.session is None else self.session.quiet

    def response(self, answers: list[PartitionData]) -> FetchResponse:
        """The response for `answers`, which are in the order of `asked_for`."""
        session = self.session
        if session is not None:
            return self._incremental_response(session, answers)
        session_id = NO_SESSION
        if self._epoch == INITIAL_EPOCH:
            session_id = self._sessions.create(self.origin, self.asked_for, answers)
        pairs = zip(self.asked_for, answers, strict=True)
        return FetchResponse(session_id=session_id, responses=_by_topic(pairs, self.origin))

    def _incremental_response(
        self, session: FetchSession, answers: list[PartitionData]
    ) -> FetchResponse:
        if session.epoch != next_epoch(self._epoch):
            # Another request of the session went by while this one waited.
            return FetchResponse(
                error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.session_id
            )
        news = []
        for asked, data in zip(self.asked_for, answers, strict=True):
            if _note_news(asked, data):
                news.append((asked, data))
            session.answered(_session_key(asked, self.origin), asked, data)
        return FetchResponse(session_id=session.session_id, responses=_by_topic(news, self.origin))


class FetchSessions:
    """All sessions of a broker, by session id."""

    def __init__(
        self, slots: int, clock: Clock, make_quiet: Callable[[], QuietPartitions] | None = None
    ) -> None:
        """Followers' sessions get what `make_quiet` makes; without it all is read each time."""
        self._slots = slots
        self._make_quiet = make_quiet
        self._clock = clock
        self._sessions: dict[int, FetchSession] = {}  # the one unused for longest first
        self.evictions = Counter()

    def __len__(self) -> int:
        return len(self._sessions)

    def register(self, counters: CounterRegistry) -> None:
        """Name what is counted here."""
        cache = partial(MetricName, "kafka.server", "FetchSessionCache")
        counters.add(cache("IncrementalFetchSessionEvictionsPerSec"), self.evictions)
        counters.add(cache("NumIncrementalFetchSessions"), self.__len__)

    def context(
        self, request: FetchRequest, version: int, topic_name: TopicName, *, is_follower: bool
    ) -> FetchContext:
        """The partitions that a request of that version asks for.

        Raises KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
        FETCH_SESSION_TOPIC_ID_ERROR.
        """
        origin = FetchOrigin(version >= FIRST_VERSION_WITH_TOPIC_IDS, is_follower)
        epoch = request.session_epoch
        if epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._next(request, origin, topic_name)
        if request.session_id != NO_SESSION:
            self._remove(request.session_id)
        named = _named(request, origin, topic_name)
        return FetchContext(self, origin, list(named.values()), epoch=epoch)

    def _next(
        self, request: FetchRequest, origin: FetchOrigin, topic_name: TopicName
    ) -> FetchContext:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if request.session_epoch != session.epoch:
            raise KafkaError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH, f"The next epoch is {session.epoch}"
            )
        if session.origin != origin:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        named = _apply_changes(session, request, topic_name)
        if not session.partitions:
            self._remove(session.session_id)
            return FetchContext(self, origin, named)
        session.epoch = next_epoch(session.epoch)
        session.last_used_ms = self._clock.monotonic_ms()
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        if session.quiet is not None:
            session.quiet.fetched(_follower(request), self._clock.now_ms())
        asked_for = list(session.to_read)
        return FetchContext(self, origin, asked_for, session, epoch=request.session_epoch)

    def create(
        self, origin: FetchOrigin, asked_for: list[FetchPartition], answers: list[PartitionData]
    ) -> int:
        """Start a session whose client has just been told `answers`; its id, or 0 when there is no
        room.
        """
        now_ms = self._clock.monotonic_ms()
        if not self._has_room(origin, len(asked_for), now_ms):
            return NO_SESSION
        session_id = randrange(1, EPOCH_MAX)
        while session_id in self._sessions:
            session_id = randrange(1, EPOCH_MAX)
        quiet = self._make_quiet() if origin.is_follower and self._make_quiet is not None else None
        session = FetchSession(session_id, origin, now_ms, quiet)
        for asked, data in zip(asked_for, answers, strict=True):
            _note_news(asked, data)
            session.name(_session_key(asked, origin), asked)
        self._sessions[session_id] = session
        return session_id

    def _has_room(self, origin: FetchOrigin, size: int, now_ms: float) -> bool:
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        victim = next(iter(self._sessions.values()))
        if now_ms - victim.last_used_ms <= EVICTION_MS:
            evictable = (
                session
                for session in self._sessions.values()
                if now_ms - session.created_ms > EVICTION_MS
                or (origin.is_follower and not session.origin.is_follower)
            )
            smallest = min(evictable, key=_weight, default=None)
            if smallest is None or _weight(smallest)[:2] >= (origin.is_follower, size):
                return False
            victim = smallest
        self._remove(victim.session_id)
        self.evictions.value += 1
        return True

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()


def next_epoch(epoch: int) -> int:
    """The epoch after `epoch`; 0 is for new sessions, so counting goes round from 1."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == EPOCH_MAX else epoch + 1


def _follower(request: FetchRequest) -> tuple[int, int]:
    """Its broker id and epoch, as its version says them."""
    state = request.replica_state
    return max(request.replica_id, state.replica_id), state.replica_epoch


def _weight(session: FetchSession) -> tuple[bool, int, int]:
    return (session.origin.is_follower, len(session.partitions), session.session_id)


def _session_key(asked: FetchPartition, origin: FetchOrigin) -> Hashable:
    if origin.uses_topic_ids:
        return asked.topic_id, asked.topic_partition.partition
    return asked.topic_partition


def _named(
    request: FetchRequest, origin: FetchOrigin, topic_name: TopicName
) -> dict[Hashable, FetchPartition]:
    named: dict[Hashable, FetchPartition] = {}
    for topic in request.topics:
        topic_id = ZERO_UUID
        name = topic.topic
        if origin.uses_topic_ids:
            topic_id = topic.topic_id if topic.topic_id is not ZERO_UUID else UUID(int=0)
            name = topic_name(topic_id) or ""
        for partition in topic.partitions:
            asked = FetchPartition(
                TopicPartition(name, partition.partition),
                topic_id,
                partition.fetch_offset,
                partition.partition_max_bytes,
                partition.current_leader_epoch if partition.current_leader_epoch >= 0 else NO_EPOCH,
                partition.last_fetched_epoch if partition.last_fetched_epoch >= 0 else NO_EPOCH,
                partition.log_start_offset,
            )
            named[_session_key(asked, origin)] = asked
    return named


def _apply_changes(
    session: FetchSession, request: FetchRequest, topic_name: TopicName
) -> list[FetchPartition]:
    """Change the session; the partitions that the request names."""
    named = _named(request, session.origin, topic_name)
    for key, asked in named.items():
        session.name(key, asked)
    for forgotten in request.forgotten_topics_data:
        topic: UUID | str = forgotten.topic_id if session.origin.uses_topic_ids else forgotten.topic
        for index in forgotten.partitions:
            session.forget((topic, index))
    if session.origin.uses_topic_ids:
        _find_names(session.to_read, topic_name)
    return list(named.values())


def _find_names(partitions: Iterable[FetchPartition], topic_name: TopicName) -> None:
    """Topics are named by id: one that was unknown may have been created since, and a known one
    deleted.
    """
    for asked in partitions:
        topic, index = asked.topic_partition
        if not topic:
            asked.topic_partition = TopicPartition(topic_name(asked.topic_id) or "", index)


def _note_news(asked: FetchPartition, data: PartitionData) -> bool:
    """Whether this is news to the client; from then on it is not."""
    is_news = data.records is not None and len(data.records) > 0
    if data.high_watermark != asked.told_high_watermark:
        asked.told_high_watermark = data.high_watermark
        is_news = True
    if data.log_start_offset != asked.told_log_start_offset:
        asked.told_log_start_offset = data.log_start_offset
        is_news = True
    if data.error_code:
        # The first answer after an error is always news: its offsets differ from this.
        asked.told_high_watermark = -1
        return True
    if asked.last_fetched_epoch >= 0 and data.diverging_epoch.epoch >= 0:
        # Nor does a follower take offsets from an answer that has it cut its log.
        asked.told_high_watermark = -1
        return True
    return is_news or data.preferred_read_replica >= 0


def _by_topic(
    pairs: Iterable[tuple[FetchPartition, PartitionData]], origin: FetchOrigin
) -> list[FetchResponse.FetchableTopicResponse]:
    topics: dict[Hashable, FetchResponse.FetchableTopicResponse] = {}
    for asked, data in pairs:
        key: Hashable = asked.topic_id if origin.uses_topic_ids else asked.topic_partition.topic
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = FetchResponse.FetchableTopicResponse(
                topic=asked.topic_partition.topic, topic_id=asked.topic_id
            )
        topic.partitions.append(data)
    return list(topics.values())
