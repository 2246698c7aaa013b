"""How far a follower has come with each partition that it fetches from one leader.

Pure. Law: one state per partition, changed in place by the one fetcher that owns it. Terms: a
partition is *truncating* until it is known where its log parts from the leader's, and *fetching*
after that; after an error it is *delayed*, and left out until its time has come.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from kbroker.model import ZERO_UUID, TopicPartition

NO_EPOCH = -1


@dataclass(slots=True, kw_only=True, eq=False)
class FetchState:
    """The state of one partition. Offsets are those of the next record, epochs -1 if unknown."""

    topic_partition: TopicPartition
    topic_id: UUID
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int  # the follower's own
    is_truncating: bool
    lag: int = 0  # committed records that it lacks, as far as its leader has said
    delayed_until_ms: float = 0.0
    trouble: str = ""  # why it cannot go on

    @property
    def is_behind(self) -> bool:
        return self.lag > 0

    @property
    def position(self) -> tuple[int, int, int, int]:
        """The position to send to the leader; a partition is named again once it has changed."""
        return (
            self.fetch_offset,
            self.log_start_offset,
            self.leader_epoch,
            self.last_fetched_epoch,
        )


class FetchStates:
    """The partitions of one fetcher, those that moved last at the end: if a leader has no room for
    a session, all are named each time, and a busy one must not starve the others.

    However many there are, a request names only those that have news for the leader and those that
    it should forget. A partition that returns is forgotten first: the leader leaves out what it
    sent before, and an answer may have come in between.
    """

    def __init__(self) -> None:
        self._states: dict[TopicPartition, FetchState] = {}
        self._delayed: dict[TopicPartition, FetchState] = {}
        self._truncating: dict[TopicPartition, FetchState] = {}
        self._changed: dict[TopicPartition, FetchState] = {}
        self._gone: dict[TopicPartition, UUID] = {}
        self._returning: dict[TopicPartition, FetchState] = {}  # asked for when they are forgotten
        self._ids: dict[UUID, dict[TopicPartition, None]] = {}  # partitions by topic id
        self.find = self._states.get

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[FetchState]:
        return iter(self._states.values())

    def add(self, state: FetchState) -> None:
        """Take up a partition, or start over with it."""
        topic_partition = state.topic_partition
        self.remove(topic_partition)
        self._states[topic_partition] = state
        self._ids.setdefault(state.topic_id, {})[topic_partition] = None
        if state.is_truncating:
            self._truncating[topic_partition] = state
        else:
            self._ask_for(state)

    def remove(self, topic_partition: TopicPartition) -> None:
        """Give up a partition if it is there."""
        state = self._states.pop(topic_partition, None)
        if state is not None:
            named = self._ids[state.topic_id]
            del named[topic_partition]
            if not named:
                del self._ids[state.topic_id]
            self._delayed.pop(topic_partition, None)
            self._truncating.pop(topic_partition, None)
            self._leave_out(state)

    def topic_name(self, topic_id: UUID) -> str | None:
        """The topic followed under an id, which this broker's metadata may not know yet."""
        named = self._ids.get(topic_id)
        return next(iter(named)).topic if named else None

    @property
    def have_ids(self) -> bool:
        return ZERO_UUID not in self._ids

    def moved(self, state: FetchState) -> None:
        """Go on fetching a partition from its new position."""
        topic_partition = state.topic_partition
        self._truncating.pop(topic_partition, None)
        state.is_truncating = False
        state.trouble = ""
        self._states[topic_partition] = self._states.pop(topic_partition)
        if topic_partition not in self._delayed:
            self._ask_for(state)

    def truncate_all(self) -> None:
        """Find out again where all partitions part from the leader."""
        for topic_partition, state in self._states.items():
            if not state.is_truncating:
                state.is_truncating = True
                self._truncating[topic_partition] = state
                self._leave_out(state)

    def delay(self, state: FetchState, until_ms: float) -> None:
        """Leave out a partition until `until_ms`."""
        state.delayed_until_ms = until_ms
        if state.topic_partition not in self._delayed:
            self._delayed[state.topic_partition] = state
            self._leave_out(state)

    def end_delays(self, now_ms: float) -> None:
        """Take up the delayed partitions whose time has come."""
        for topic_partition, state in list(self._delayed.items()):
            if state.delayed_until_ms <= now_ms:
                del self._delayed[topic_partition]
                if not state.is_truncating:
                    self._ask_for(state)

    def next_delay_ms(self, now_ms: float) -> float | None:
        """The time until the next delay ends, None if no partition is delayed."""
        ends = (state.delayed_until_ms for state in self._delayed.values())
        first = min(ends, default=None)
        return None if first is None else max(0.0, first - now_ms)

    def truncating(self) -> list[FetchState]:
        """The truncating partitions that are not delayed."""
        return [s for tp, s in self._truncating.items() if tp not in self._delayed]

    def fetching(self) -> list[FetchState]:
        """The fetching partitions that are not delayed."""
        return [
            state
            for topic_partition, state in self._states.items()
            if not state.is_truncating and topic_partition not in self._delayed
        ]

    def due(self, now_ms: float) -> list[FetchState]:
        """The fetching partitions that are not delayed, or whose delay is over."""
        return [
            state
            for topic_partition, state in self._states.items()
            if not state.is_truncating
            and (topic_partition not in self._delayed or state.delayed_until_ms <= now_ms)
        ]

    def has_fetching(self) -> bool:
        return len(self._states) > len(self._truncating.keys() | self._delayed.keys())

    def is_ready(self, state: FetchState) -> bool:
        """Whether the state is the current one of its partition, and not delayed."""
        topic_partition = state.topic_partition
        return self._states.get(topic_partition) is state and topic_partition not in self._delayed

    def next_request(
        self, *, is_full: bool
    ) -> tuple[list[FetchState], list[tuple[TopicPartition, UUID]]]:
        """Return (partitions to name, partitions to forget); a full request names all."""
        asked = self.fetching() if is_full else list(self._changed.values())
        forgotten = [] if is_full else list(self._gone.items())
        self._changed.clear()
        self._gone.clear()
        if not is_full:
            self._changed.update(self._returning)
        self._returning.clear()
        return asked, forgotten

    @property
    def must_ask(self) -> bool:
        """Whether there is something to send to a leader with a session."""
        return bool(self._changed or self._gone)

    @property
    def must_hurry(self) -> bool:
        """Whether partitions wait for the request after this one."""
        return bool(self._changed)

    def is_expected(self, state: FetchState) -> bool:
        """Whether an answer for the partition counts: it was asked for with this very state."""
        topic_partition = state.topic_partition
        return self.is_ready(state) and not (
            state.is_truncating
            or topic_partition in self._changed
            or topic_partition in self._returning
        )

    def _ask_for(self, state: FetchState) -> None:
        waiting = self._returning if state.topic_partition in self._gone else self._changed
        waiting[state.topic_partition] = state

    def _leave_out(self, state: FetchState) -> None:
        self._changed.pop(state.topic_partition, None)
        self._returning.pop(state.topic_partition, None)
        self._gone[state.topic_partition] = state.topic_id
