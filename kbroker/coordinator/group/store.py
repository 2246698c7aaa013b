"""The groups this broker coordinates, and the shards of `__consumer_offsets` that keep them.

Law: owned by the event loop. A group is here exactly while this broker leads its partition and has
loaded it; a group that is found here needs no further check. All effects of group machines are run
here. What a record says of members enters a group once it is stored, as in Kafka (its classic
groups are not replayed before either): until then members act on what holds, and a failed append
has nothing to take back. A static member's new id also enters it when the log has it and nobody
confirmed that in time: the next load will find it there. Offsets are replayed at once; readers see
those that are stored. The record of a group that has become empty is written in the background:
those who left do not come back if that fails, and a coordinator that loads the older record waits
for them one session.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import islice

from kbroker.config.group_config import GroupConfig
from kbroker.coordinator.group.causes import moved
from kbroker.coordinator.group.group import Group
from kbroker.coordinator.group.join_sync import (
    StaticMemberStored,
    on_static_member_refused,
    on_static_member_stored,
)
from kbroker.coordinator.group.offsets import GroupOffsets
from kbroker.coordinator.group.rebalance import (
    AssignmentStored,
    GroupStep,
    TimerKey,
    on_assignment_stored,
)
from kbroker.coordinator.group.replay import GroupReplay
from kbroker.coordinator.group.sessions import close, on_timer, start_sessions
from kbroker.coordinator.runtime.append_errors import append_errors
from kbroker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from kbroker.coordinator.runtime.effects import (
    Append,
    CancelTimer,
    Effect,
    Happened,
    KeyValue,
    Reply,
    SetTimer,
)
from kbroker.coordinator.runtime.pending_reply import PendingReply
from kbroker.coordinator.runtime.shard import UNCONFIRMED, ReplayedPart, Settled, Shard, nothing
from kbroker.coordinator.transaction.transaction import Producer
from kbroker.errors import ErrorCode
from kbroker.events.event import Note, nobody_notes
from kbroker.record.record_batch import (
    BatchOptions,
    ControlRecord,
    marker_options,
    marker_record,
)
from kbroker.replication.partitions.produce_result import REQUIRED_ACKS_ALL
from kbroker.turns import ENTRIES, in_turns

_log = logging.getLogger(__name__)

_ANSWERS_AT_ONCE = 64  # some milliseconds, until they are written
_METADATA_ERRORS = {
    **append_errors(too_large=ErrorCode.UNKNOWN_SERVER_ERROR),
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
}


class CoordinatedGroup:
    """A group and where it is kept."""

    __slots__ = ("group", "home")

    def __init__(self, group: Group, home: GroupShard) -> None:
        self.group = group
        self.home = home


class GroupStore:
    """Finds and drives groups."""

    def __init__(
        self,
        config: GroupConfig,
        runtime: CoordinatorRuntime[GroupMachine],
        note: Note = nobody_notes,
    ) -> None:
        self.config = config
        self._note = note
        self.runtime = runtime
        self._groups: dict[str, CoordinatedGroup] = {}
        self._homes: dict[GroupShard, dict[str, CoordinatedGroup]] = {}  # the same, by shard
        self.find = self._groups.get  # by group id; None for a group that is not here

    # ---- look up

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[CoordinatedGroup]:
        return iter(list(self._groups.values()))

    def create(self, group_id: str, offsets: GroupOffsets | None = None) -> CoordinatedGroup:
        """A new group without members; the runtime's `status` must have been NONE."""
        home = self.runtime.shard_for(group_id)
        assert home is not None
        assert home.is_loaded
        assert group_id not in self._groups
        group = Group(group_id, offsets=offsets or GroupOffsets(home.timeline))
        created = CoordinatedGroup(group, home)
        self._keep(created)
        return created

    def forget(self, coordinated: CoordinatedGroup, code: ErrorCode) -> None:
        """Drop a group that is no longer here, or deleted, and answer `code` to whoever waits."""
        step = self.step(coordinated)
        self._let_go(coordinated)
        close(step, code)
        self.run(coordinated, step.effects)

    def bury(self, coordinated: CoordinatedGroup) -> None:
        """The log says that the group is gone. Offsets that came after that, or come back if the
        log refuses their end, are what the next load finds: a group that only keeps offsets.
        """
        self.forget(coordinated, ErrorCode.UNKNOWN_MEMBER_ID)
        if coordinated.group.offsets:
            self.create(coordinated.group.group_id, coordinated.group.offsets)

    def drop_if_untouched(self, group_id: str) -> None:
        """Drop a group of which the log has nothing and will get nothing: it was made for a member
        or a commit that was refused, or is left without offsets, and only takes up room.
        """
        coordinated = self.find(group_id)
        if coordinated is None:
            return
        group = coordinated.group
        if not (
            group.generation_id or group.members or group.pending_members or bool(group.offsets)
        ):
            self._let_go(coordinated)

    # ---- drive

    def step(self, coordinated: CoordinatedGroup) -> GroupStep:
        """An input to a group, happening now."""
        return GroupStep(coordinated.group, self.config, self.runtime.now())

    def run(self, coordinated: CoordinatedGroup, effects: Iterable[Effect]) -> None:
        """Do what a machine asked for, in order; answers beyond a few come later, as each wakes
        somebody who has it written.
        """
        replies: deque[Reply] = deque()
        for effect in effects:
            if isinstance(effect, Reply):
                replies.append(effect)
            elif isinstance(effect, SetTimer):
                self._set_timer(coordinated, effect)
            elif isinstance(effect, CancelTimer):
                self.runtime.cancel_timer((coordinated, effect.key))
            elif isinstance(effect, Happened):
                self._note(effect.event)
            else:
                self._append(coordinated, effect)
        _answer(replies)

    def _set_timer(self, coordinated: CoordinatedGroup, effect: SetTimer) -> None:
        key = effect.key
        assert isinstance(key, TimerKey)

        def fire() -> None:
            step = self.step(coordinated)
            on_timer(step, key)
            self.run(coordinated, step.effects)

        self.runtime.set_timer((coordinated, key), effect.deadline_ms, fire)

    def _append(self, coordinated: CoordinatedGroup, effect: Append) -> None:
        def settled(error: ErrorCode) -> None:
            is_in_log = error is ErrorCode.NONE or error in UNCONFIRMED
            error = _METADATA_ERRORS.get(error, error)
            step = self.step(coordinated)
            token = effect.token
            if isinstance(token, AssignmentStored):
                on_assignment_stored(step, token, error)
            elif isinstance(token, StaticMemberStored):
                heard = on_static_member_stored if is_in_log else on_static_member_refused
                heard(step, token, error)
            elif error is not ErrorCode.NONE:
                _log.warning(
                    "Empty group %s not stored: %s", coordinated.group.group_id, error.name
                )
            self.run(coordinated, step.effects)

        coordinated.home.write(effect.records, nothing, settled)

    def write_tombstones(
        self,
        coordinated: CoordinatedGroup,
        tombstones: list[KeyValue],
        replay: ReplayedPart,
        written: Settled = lambda _: None,
    ) -> None:
        """Write that keys are gone; `written` hears of it, or of a refusal.

        A refused part stays; a clean-up need not care, as it will find it again.
        """

        def settled(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                _log.warning(
                    "Tombstones of group %s not stored: %s", coordinated.group.group_id, error.name
                )
            written(error)
            self.drop_if_untouched(coordinated.group.group_id)

        if tombstones:
            coordinated.home.write_in_parts(tombstones, replay, settled)
        else:
            written(ErrorCode.NONE)

    # ---- shards

    def new_machine(self, shard: GroupShard) -> GroupMachine:
        return GroupMachine(self, shard)

    def ends(self) -> dict[GroupShard, int]:
        """Where the logs of all partitions that serve here end, with what is on its way there."""
        return {home: home.next_offset for home in self._homes}

    def take_in(self, home: GroupShard, loaded: Mapping[str, CoordinatedGroup]) -> None:
        """Take in groups that were loaded; their members get a session to show up."""
        self._homes[home] = dict(loaded)
        self._groups.update(loaded)
        self.runtime.run_sliced(self._start_sessions(loaded.values()), "sessions of loaded groups")

    def _start_sessions(self, loaded: Iterable[CoordinatedGroup]) -> Iterator[None]:
        for coordinated in loaded:
            if coordinated.group.members and self.find(coordinated.group.group_id) is coordinated:
                step = self.step(coordinated)
                self._note(moved(coordinated.group, is_here=True))
                start_sessions(step)
                self.run(coordinated, step.effects)
            yield

    def give_up(self, home: GroupShard) -> None:
        """Another broker coordinates these groups now: none of them is here any more. Of very many
        the last hear of it a little later.
        """
        groups = self._homes.pop(home)
        for group_id in groups:
            del self._groups[group_id]
        dismissals = self._dismiss(groups.values())
        for _ in islice(dismissals, ENTRIES):
            pass
        if len(groups) > ENTRIES:
            self.runtime.start(in_turns(dismissals), f"groups of {home.topic_partition}")

    def _dismiss(self, groups: Iterable[CoordinatedGroup]) -> Iterator[None]:
        for coordinated in groups:
            if coordinated.group.members:
                self._note(moved(coordinated.group, is_here=False))
            step = self.step(coordinated)
            close(step, ErrorCode.NOT_COORDINATOR)
            self.run(coordinated, step.effects)
            yield

    def _keep(self, coordinated: CoordinatedGroup) -> None:
        group_id = coordinated.group.group_id
        self._groups[group_id] = self._homes[coordinated.home][group_id] = coordinated

    def _let_go(self, coordinated: CoordinatedGroup) -> None:
        group_id = coordinated.group.group_id
        del self._groups[group_id]
        del self._homes[coordinated.home][group_id]


def _answer(replies: deque[Reply]) -> None:
    for _ in range(min(_ANSWERS_AT_ONCE, len(replies))):
        reply = replies.popleft()
        assert isinstance(reply.correlation, PendingReply)
        reply.correlation.answer(reply.response)
    if replies:
        asyncio.get_running_loop().call_soon(_answer, replies)


class GroupMachine:
    """The groups of one partition, as the runtime drives them."""

    def __init__(self, store: GroupStore, shard: GroupShard) -> None:
        self._store = store
        self._shard = shard
        self._loaded: dict[str, CoordinatedGroup] = {}
        replay = GroupReplay(shard.timeline)
        self._read_groups = replay.groups
        self._in_transaction = replay.in_transaction  # producer id -> groups, maybe of the past
        self.record = replay.record
        self.marker = replay.marker
        self.open_producers = replay.open_producers

    def finish_load(self) -> Generator[None, None, bool]:
        """Put the groups together."""
        for group in self._read_groups():
            self._loaded[group.group_id] = CoordinatedGroup(group, self._shard)
            yield
        return True

    def on_loaded(self) -> None:
        """The groups can be used."""
        loaded, self._loaded = self._loaded, {}
        self._store.take_in(self._shard, loaded)

    def on_resigned(self) -> None:
        self._store.give_up(self._shard)

    # ---- transactions

    def takes_part(self, group_id: str, producer_id: int) -> None:
        """A group is about to get offsets in a producer's transaction."""
        self._in_transaction.setdefault(producer_id, set()).add(group_id)

    def end_transaction(self, producer: Producer, control: ControlRecord, settled: Settled) -> None:
        """Write a marker, in line with its offsets: they count or are dropped when it is stored."""
        producer_id = producer.producer_id

        def replay(_base_offset: int) -> None:
            for offsets in self._offsets_of(producer_id):
                offsets.end_transaction(producer_id, control.is_commit)

        def ended(error: ErrorCode) -> None:
            groups = self._in_transaction.get(producer_id, ())
            self._forget_groups_without(producer_id)
            if error is ErrorCode.NONE:
                for group_id in groups:
                    self._store.drop_if_untouched(group_id)
            settled(error)

        options = BatchOptions(producer_id=producer_id, producer_epoch=producer.epoch)
        records = [KeyValue(*marker_record(control))]
        self._shard.write(records, replay, ended, marker_options(options), REQUIRED_ACKS_ALL)

    def _offsets_of(self, producer_id: int) -> Iterator[GroupOffsets]:
        for group_id in self._in_transaction.get(producer_id, ()):
            coordinated = self._store.find(group_id)
            if coordinated is not None:
                yield coordinated.group.offsets

    def _forget_groups_without(self, producer_id: int) -> None:
        if not any(
            offsets.pending.has_pending(producer_id) for offsets in self._offsets_of(producer_id)
        ):
            self._in_transaction.pop(producer_id, None)


GroupShard = Shard[GroupMachine]
