"""How far a follower has come with each partition that it fetches from one leader.

Pure. Law: one state per partition, changed in place by the one fetcher that owns it. Terms: a
partition is *truncating* while it is not known where its log parts from the leader's, and
*fetching* after that; one that met an error is *delayed*, and left out until its time has come.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from kbroker.model import ZERO_UUID, TopicPartition

NO_EPOCH = -1


@dataclass(slots=True, kw_only=True, eq=False)
class FetchState:
    """One partition. Offsets are those of the next record, epochs -1 if there is none."""

    topic_partition: TopicPartition
    topic_id: UUID
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int  # the follower's own
    is_truncating: bool
    is_behind: bool = False  # it lacks what is committed, as far as its leader has said
    delayed_until_ms: float = 0.0
    trouble: str = ""  # what keeps it from going on

    @property
    def position(self) -> tuple[int, int, int, int]:
        """The place that a leader is told: the partition is named again where it has changed."""
        return (
            self.fetch_offset,
            self.log_start_offset,
            self.leader_epoch,
            self.last_fetched_epoch,
        )


class FetchStates:
    """The partitions of one fetcher, those that have moved last at the end: a busy one must not
    starve the others where a leader, without room for a session, has to be told all each time.

    A request is made of those alone of which the leader has yet to hear, and of those that it is to
    forget, however many partitions there are. One that is taken up again is forgotten first: the
    leader leaves out what it has told before, and an answer may have come in between.
    """

    def __init__(self) -> None:
        self._states: dict[TopicPartition, FetchState] = {}
        self._delayed: dict[TopicPartition, FetchState] = {}
        self._truncating: dict[TopicPartition, FetchState] = {}
        self._changed: dict[TopicPartition, FetchState] = {}
        self._gone: dict[TopicPartition, UUID] = {}
        self._returning: dict[TopicPartition, FetchState] = {}  # asked for when they are forgotten
        self._ids: dict[UUID, dict[TopicPartition, None]] = {}  # of topics, by the id asked for
        self.find = self._states.get

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[FetchState]:
        return iter(self._states.values())

    def add(self, state: FetchState) -> None:
        """Take up a partition, in place of what was known of it."""
        topic_partition = state.topic_partition
        self.remove(topic_partition)
        self._states[topic_partition] = state
        self._ids.setdefault(state.topic_id, {})[topic_partition] = None
        if state.is_truncating:
            self._truncating[topic_partition] = state
        else:
            self._ask_for(state)

    def remove(self, topic_partition: TopicPartition) -> None:
        """Give up a partition, if it is there."""
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
        """The topic that is followed under an id; this broker's metadata may not know it yet."""
        named = self._ids.get(topic_id)
        return next(iter(named)).topic if named else None

    @property
    def have_ids(self) -> bool:
        """Whether all topics have an id."""
        return ZERO_UUID not in self._ids

    def moved(self, state: FetchState) -> None:
        """It has another position now, from which it goes on fetching."""
        topic_partition = state.topic_partition
        self._truncating.pop(topic_partition, None)
        state.is_truncating = False
        state.trouble = ""
        self._states[topic_partition] = self._states.pop(topic_partition)
        if topic_partition not in self._delayed:
            self._ask_for(state)

    def truncate_all(self) -> None:
        """Find out of all once more where they part from the leader."""
        for topic_partition, state in self._states.items():
            if not state.is_truncating:
                state.is_truncating = True
                self._truncating[topic_partition] = state
                self._leave_out(state)

    def delay(self, state: FetchState, until_ms: float) -> None:
        """Leave it out until then."""
        state.delayed_until_ms = until_ms
        if state.topic_partition not in self._delayed:
            self._delayed[state.topic_partition] = state
            self._leave_out(state)

    def end_delays(self, now_ms: float) -> None:
        """Take those up again whose time has come."""
        for topic_partition, state in list(self._delayed.items()):
            if state.delayed_until_ms <= now_ms:
                del self._delayed[topic_partition]
                if not state.is_truncating:
                    self._ask_for(state)

    def next_delay_ms(self, now_ms: float) -> float | None:
        """How long until one is to be taken up again, None if none is delayed."""
        ends = (state.delayed_until_ms for state in self._delayed.values())
        first = min(ends, default=None)
        return None if first is None else max(0.0, first - now_ms)

    def truncating(self) -> list[FetchState]:
        """Those of which it is to be found out where they part from the leader."""
        return [s for tp, s in self._truncating.items() if tp not in self._delayed]

    def fetching(self) -> list[FetchState]:
        """All that are asked for."""
        return [
            state
            for topic_partition, state in self._states.items()
            if not state.is_truncating and topic_partition not in self._delayed
        ]

    def due(self, now_ms: float) -> list[FetchState]:
        """All that are asked for, and those that would be as their delay is over."""
        return [
            state
            for topic_partition, state in self._states.items()
            if not state.is_truncating
            and (topic_partition not in self._delayed or state.delayed_until_ms <= now_ms)
        ]

    def has_fetching(self) -> bool:
        """Whether any is asked for."""
        return len(self._states) > len(self._truncating.keys() | self._delayed.keys())

    def is_ready(self, state: FetchState) -> bool:
        """Whether it is still followed, and not delayed."""
        topic_partition = state.topic_partition
        return self._states.get(topic_partition) is state and topic_partition not in self._delayed

    def next_request(
        self, *, is_full: bool
    ) -> tuple[list[FetchState], list[tuple[TopicPartition, UUID]]]:
        """(partitions to name, partitions to forget); a full request names all, and the leader has
        nothing to forget.
        """
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
        """Whether a leader with a session is to hear of something."""
        return bool(self._changed or self._gone)

    @property
    def must_hurry(self) -> bool:
        """Whether partitions wait for the next request after this one."""
        return bool(self._changed)

    def is_expected(self, state: FetchState) -> bool:
        """Whether an answer for it counts: it was asked for as it is now, and not delayed."""
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
