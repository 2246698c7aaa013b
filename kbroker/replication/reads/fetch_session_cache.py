"""All fetch sessions of a broker.

The session epoch of a request says what it wants: -1 no session; 0 a new session with all the
partitions it names; n is the n-th request of a session, which names new and changed partitions and
those to forget. The answer to a session leaves out partitions without news.

Law: owned by the event loop. The cache is bounded by `max.incremental.fetch.session.cache.slots`. A
full cache replaces a session that nobody used for two minutes, or an older one with fewer
partitions: a big session saves more. A follower's session replaces any consumer's, and is never
evicted for one. The partitions of all consumers' sessions are bounded together, too: if they are
too many, sessions whose clients have gone give way, then those unused for two minutes. A client
without a session names all its partitions each time, and misses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import randrange

from kbroker.clock import Clock
from kbroker.counters import Counter, CounterRegistry, MetricName
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.request import ConnectionInfo
from kbroker.replication.reads.fetch_params import FetchPartition
from kbroker.replication.reads.fetch_session import (
    EPOCH_MAX,
    FetchOrigin,
    FetchSession,
    next_epoch,
)
from kbroker.replication.reads.quiet_partitions import QuietPartitions

EVICTION_MS = 120_000  # a session is safe for so long after its creation and after each use
PARTITIONS_MAX = 128 * 1024  # of all consumers' sessions, about 50 MB


class FetchSessions:
    """The sessions of one broker by their id."""

    def __init__(
        self,
        slots: int,
        clock: Clock,
        make_quiet: Callable[[], QuietPartitions] | None = None,
        partitions_max: int = PARTITIONS_MAX,
    ) -> None:
        """`make_quiet` makes a follower's quiet partitions; without it all are read each time."""
        self._slots = slots
        self._make_quiet = make_quiet
        self._clock = clock
        self._partitions_max = partitions_max
        self._sessions: dict[int, FetchSession] = {}  # the least recently used first
        self.weight = 0  # of all consumers' sessions
        self.evictions = Counter()

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, session_id: int) -> FetchSession | None:
        """The session of that id, if there is one. To look is not to use it."""
        return self._sessions.get(session_id)

    def size(self, session_id: int) -> int:
        """The number of partitions of a session; 0 if there is no such session."""
        session = self._sessions.get(session_id)
        return 0 if session is None else len(session.partitions)

    def register(self, counters: CounterRegistry) -> None:
        """Register the counts of sessions and evictions."""
        cache = partial(MetricName, "kafka.server", "FetchSessionCache")
        counters.add(cache("IncrementalFetchSessionEvictionsPerSec"), self.evictions)
        counters.add(cache("NumIncrementalFetchSessions"), self.__len__)
        counters.add(
            cache("NumIncrementalFetchPartitionsCached"),
            lambda: sum(len(session.partitions) for session in self._sessions.values()),
        )

    def take_up(
        self, request: FetchRequest, origin: FetchOrigin, connection: ConnectionInfo | None
    ) -> FetchSession:
        """The session that a request goes on with.

        Raises KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
        FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if request.session_epoch != session.epoch:
            raise KafkaError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH, f"The next epoch is {session.epoch}"
            )
        if session.origin != origin:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if session.end_wait is not None:
            session.end_wait()  # nobody wants that answer any more
        session.epoch = next_epoch(session.epoch)
        session.last_used_ms = self._clock.monotonic_ms()
        session.connection = connection
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        return session

    def create(
        self,
        origin: FetchOrigin,
        asked_for: list[FetchPartition],
        connection: ConnectionInfo | None = None,
    ) -> FetchSession | None:
        """A session for these partitions, which are named next; None if there is no room."""
        now_ms = self._clock.monotonic_ms()
        size = len(asked_for)
        if not self._has_slot(origin, size, now_ms):
            return None
        if not origin.is_follower and not self._has_room(size, now_ms):
            return None
        session_id = randrange(1, EPOCH_MAX)
        while session_id in self._sessions:
            session_id = randrange(1, EPOCH_MAX)
        quiet = self._make_quiet() if origin.is_follower and self._make_quiet is not None else None
        session = FetchSession(session_id, origin, now_ms, quiet)
        session.connection = connection
        self._sessions[session_id] = session
        self._set_counted(session, size)  # others may begin before all are named
        return session

    def count(self, session: FetchSession) -> bool:
        """Whether there is room for the session, which has gained or lost partitions."""
        more = session.weight - session.counted
        if more > 0 and not (
            session.origin.is_follower or self._has_room(more, self._clock.monotonic_ms(), session)
        ):
            return False
        self._set_counted(session, session.weight)
        return True

    def note_fetch(self, quiet: QuietPartitions, follower: tuple[int, int]) -> None:
        """Note that the broker of that id and epoch fetches all its quiet partitions."""
        quiet.fetched(follower, self._clock.now_ms())

    def remove(self, session_id: int) -> None:
        """End the session of that id if there is one."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._set_counted(session, 0)
            del self._sessions[session_id]
            session.close()

    def _set_counted(self, session: FetchSession, weight: int) -> None:
        if not session.origin.is_follower and session.session_id in self._sessions:
            self.weight += weight - session.counted
        session.counted = weight

    def _has_room(self, weight: int, now_ms: float, but: FetchSession | None = None) -> bool:
        """Whether consumers may have this much more weight; any but `but` may give way."""
        allowed = self._partitions_max - weight
        if self.weight <= allowed:
            return True
        others = [s for s in self._sessions.values() if not s.origin.is_follower and s is not but]
        left = [s for s in others if s.is_left]
        unused = [s for s in others if not s.is_left and now_ms - s.last_used_ms > EVICTION_MS]
        giving_way = left + unused
        if self.weight - sum(s.counted for s in giving_way) > allowed:
            return False
        for session in giving_way:
            if self.weight > allowed:
                self._evict(session)
        return True

    def _has_slot(self, origin: FetchOrigin, size: int, now_ms: float) -> bool:
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
        self._evict(victim)
        return True

    def _evict(self, session: FetchSession) -> None:
        self.remove(session.session_id)
        self.evictions.value += 1


def _weight(session: FetchSession) -> tuple[bool, int, int]:
    return (session.origin.is_follower, len(session.partitions), session.session_id)
