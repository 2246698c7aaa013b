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
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from kbroker.config.group_config import GroupConfig
from kbroker.coordinator.group.classic_group import ClassicGroup
from kbroker.coordinator.group.coordinated_group import CoordinatedGroup
from kbroker.coordinator.group.group import Group
from kbroker.coordinator.group.offsets import GroupOffsets
from kbroker.coordinator.group.rebalance import EmptyGroupStored
from kbroker.coordinator.group.replay import GroupReplay
from kbroker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from kbroker.coordinator.runtime.effects import (
    Append,
    CancelTimer,
    Compute,
    Effect,
    Happened,
    KeyValue,
    RecordsToMake,
    Reply,
    SetTimer,
    TakePlace,
)
from kbroker.coordinator.runtime.pending_reply import PendingReply
from kbroker.coordinator.runtime.shard import UNCONFIRMED, BeingMade, ReplayedPart, Settled, Shard
from kbroker.coordinator.runtime.timeline import Timeline
from kbroker.coordinator.transaction.producer import Producer
from kbroker.errors import ErrorCode
from kbroker.events.event import Event, Note, nobody_notes
from kbroker.events.group_events import ProtocolChanged
from kbroker.rare_lines import RareLines, note_of
from kbroker.record.record_batch import (
    BatchOptions,
    ControlRecord,
    marker_options,
    marker_record,
)
from kbroker.replication.partitions.produce_result import REQUIRED_ACKS_ALL
from kbroker.turns import ENTRIES, in_turns

if TYPE_CHECKING:
    from kbroker.coordinator.consumer_group.consumer_group import ConsumerGroup
    from kbroker.coordinator.consumer_group.replay import ConsumerGroupReplay

_log = logging.getLogger(__name__)

_ANSWERS_AT_ONCE = 64  # some milliseconds, until they are written


class MakesConsumerGroups(Protocol):
    """A maker of groups of the consumer protocol, imported with the first of them."""

    def replay(self, timeline: Timeline) -> ConsumerGroupReplay:
        """Return what reads their records."""
        ...

    def made(
        self, group: ConsumerGroup, home: GroupShard, offsets: GroupOffsets
    ) -> CoordinatedGroup:
        """Return a group that the store does not have yet."""
        ...


class GroupStore:
    """Finds and drives groups."""

    def __init__(
        self,
        config: GroupConfig,
        runtime: CoordinatorRuntime[GroupMachine],
        note: Note = nobody_notes,
        consumer_groups: Callable[[], MakesConsumerGroups] | None = None,
    ) -> None:
        """`consumer_groups` gives what makes those of the consumer protocol; None if none are
        served.
        """
        self.config = config
        self.consumer_groups = consumer_groups
        # Runs work of groups that takes long.
        self.beside: Callable[[Callable[[], Any]], Awaitable[Any]] = asyncio.to_thread
        # Makes records, for which a whole partition waits: behind no work of groups.
        self.making = _thread_for_records()
        self._note = note
        self.happened: Counter[str] = Counter()  # events, by their names
        self.runtime = runtime
        self._lines = RareLines()  # of work that fails
        self._groups: dict[str, CoordinatedGroup] = {}
        self._homes: dict[GroupShard, dict[str, CoordinatedGroup]] = {}  # the same, by shard
        self.find = self._groups.get  # by group id; None for a group that is not here

    # ---- look up

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[CoordinatedGroup]:
        return iter(list(self._groups.values()))

    def create(self, group_id: str, offsets: GroupOffsets | None = None) -> ClassicGroup:
        """A new group without members; the runtime's `status` must have been NONE."""
        home = self.home_of(group_id)
        group = Group(group_id, offsets=offsets or GroupOffsets(home.timeline))
        created = ClassicGroup(group, home, self.config)
        self.keep(created)
        return created

    def home_of(self, group_id: str) -> GroupShard:
        """The shard of a group that is to be made here."""
        home = self.runtime.shard_for(group_id)
        assert home is not None
        assert home.is_loaded
        assert group_id not in self._groups
        return home

    def keep(self, coordinated: CoordinatedGroup) -> None:
        """Have a group that was made, from now on in the place of any other of its id."""
        group_id = coordinated.group_id
        self._groups[group_id] = self._homes[coordinated.home][group_id] = coordinated

    def forget(self, coordinated: CoordinatedGroup, code: ErrorCode) -> None:
        """Drop a group that is no longer here, or deleted, and answer `code` to whoever waits."""
        self._let_go(coordinated)
        self._close(coordinated, code)

    def bury(self, coordinated: CoordinatedGroup) -> None:
        """The log says that the group is gone. Offsets that came after that, or come back if the
        log refuses their end, are what the next load finds: a group that only keeps offsets.
        """
        self.forget(coordinated, ErrorCode.UNKNOWN_MEMBER_ID)
        if coordinated.offsets:
            self.create(coordinated.group_id, coordinated.offsets)

    def drop_if_untouched(self, group_id: str) -> None:
        """Drop a group of which the log has nothing and will get nothing: it was made for a member
        or a commit that was refused, or is left without offsets, and only takes up room.
        """
        coordinated = self.find(group_id)
        if coordinated is None or coordinated.is_recorded or coordinated.before is not None:
            return  # what has just taken the place of another hears itself what comes of it
        if not coordinated.offsets:
            self._let_go(coordinated)

    # ---- drive

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
                self._tell(effect.event)
            elif isinstance(effect, Compute):
                self._compute(coordinated, effect)
            elif isinstance(effect, TakePlace):
                self._take_place(coordinated, effect)
            else:
                self._append(coordinated, effect)
        if coordinated.before is None:
            _answer(replies)
        elif replies:
            coordinated.held = [*coordinated.held, *replies]

    def _tell(self, event: Event) -> None:
        self.happened[event.name] += 1
        self._note(event)

    def _set_timer(self, coordinated: CoordinatedGroup, effect: SetTimer) -> None:
        key = effect.key

        def fire() -> None:
            if self.find(coordinated.group_id) is not coordinated:
                return  # another kind has taken its place
            self.run(coordinated, coordinated.timer_fired(key, self.runtime.now()))

        self.runtime.set_timer((coordinated, key), effect.deadline_ms, fire)

    def _append(self, coordinated: CoordinatedGroup, effect: Append) -> None:
        def settled(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE and isinstance(effect.token, EmptyGroupStored):
                _log.warning("Empty group %s not stored: %s", coordinated.group_id, error.name)
            elif error is not ErrorCode.NONE and not effect.is_answered:
                self._tell_failed(
                    coordinated.group_id, f"what it has decided was not stored: {error.name}"
                )
            ended = coordinated.append_ended(effect.token, error, self.runtime.now())
            self.run(coordinated, ended)
            if error is not ErrorCode.NONE:
                self.drop_if_untouched(coordinated.group_id)

        self._write(coordinated, effect, settled)

    def _write(self, coordinated: CoordinatedGroup, effect: Append, settled: Settled) -> None:
        home, records = coordinated.home, effect.records
        replay = coordinated.replay(effect.token)
        if not isinstance(records, RecordsToMake):
            home.write(records, replay, settled)
            return
        made: asyncio.Future[Sequence[KeyValue]] = asyncio.get_running_loop().create_future()
        home.write_when_made(BeingMade(made, records.number), replay, settled)
        self.runtime.start(self._make(records, made), f"records of group {coordinated.group_id}")

    async def _make(self, records: RecordsToMake, made: asyncio.Future[Sequence[KeyValue]]) -> None:
        try:
            made.set_result(await self.making(records.make))
        except Exception as error:
            made.set_exception(error)
            raise

    def _take_place(self, before: CoordinatedGroup, effect: TakePlace) -> None:
        """Put a group of another kind in the place of this one, until the log refuses it."""
        after: CoordinatedGroup = effect.successor
        append = effect.append
        self.run(before, before.displaced(self.runtime.now()))
        after.before = before
        self.keep(after)
        self.run(after, effect.first)

        def settled(error: ErrorCode) -> None:
            is_in_log = error is ErrorCode.NONE or error in UNCONFIRMED
            if is_in_log:
                self._tell(_protocol_changed(after))
            else:
                self._bring_back(before, after)
            held, after.held, after.before = after.held, (), None
            self.run(after, after.append_ended(append.token, error, self.runtime.now()))
            _answer(deque(held if error is ErrorCode.NONE else map(_taken_back, held)))
            if not is_in_log:
                self.drop_if_untouched(after.group_id)

        self._write(after, append, settled)

    def _bring_back(self, before: CoordinatedGroup, after: CoordinatedGroup) -> None:
        """Put a group back whose place `after` had taken, which the log has refused; with that all
        are gone that have taken its place since.
        """
        found = self.find(before.group_id)
        gone = []
        while found is not None and found is not after:
            gone.append(found)
            found = found.before
        if found is not after:
            return  # it went with one before it, or is not here any more
        for each in (*gone, after):
            self.run(each, each.displaced(self.runtime.now()))
        self.keep(before)
        self.run(before, before.restored(self.runtime.now()))

    def _compute(self, coordinated: CoordinatedGroup, effect: Compute) -> None:
        async def work() -> None:
            found = await self._worked(coordinated, effect)
            if self.find(coordinated.group_id) is coordinated:
                effects = coordinated.computed(effect.token, found, self.runtime.now())
                self.run(coordinated, effects)

        self.runtime.start(work(), f"work of group {coordinated.group_id}")

    async def _worked(self, coordinated: CoordinatedGroup, effect: Compute) -> Any:
        """Return what comes of it, None if it fails."""
        try:
            return await coordinated.worked(effect, self.beside)
        except Exception as error:
            self._tell_failed(coordinated.group_id, str(error))
            return None

    def _tell_failed(self, group_id: str, reason: str) -> None:
        now_ms = self.runtime.monotonic_ms()
        left_out = self._lines.left_out("failed", f"{group_id}: {reason}", now_ms)
        if left_out is not None:
            _log.error("Group %s: %s%s", group_id, reason, note_of(left_out))

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
                    "Tombstones of group %s not stored: %s", coordinated.group_id, error.name
                )
            written(error)
            self.drop_if_untouched(coordinated.group_id)

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
            if self.find(coordinated.group_id) is coordinated:
                moved = coordinated.moved(is_here=True)
                if moved is not None:
                    self._note(moved)
                    self.run(coordinated, coordinated.started(self.runtime.now()))
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
            moved = coordinated.moved(is_here=False)
            if moved is not None:
                self._note(moved)
            self._close(coordinated, ErrorCode.NOT_COORDINATOR)
            yield

    def _close(self, coordinated: CoordinatedGroup, code: ErrorCode) -> None:
        self.run(coordinated, coordinated.closed(code, self.runtime.now()))

    def _let_go(self, coordinated: CoordinatedGroup) -> None:
        group_id = coordinated.group_id
        del self._groups[group_id]
        del self._homes[coordinated.home][group_id]


def _protocol_changed(group: CoordinatedGroup) -> ProtocolChanged:
    """The event of a group that has taken the place of one of another kind."""
    return ProtocolChanged(group=group.group_id, protocol=group.kind, members=group.member_count)


def _answer(replies: deque[Reply]) -> None:
    for _ in range(min(_ANSWERS_AT_ONCE, len(replies))):
        reply = replies.popleft()
        assert isinstance(reply.correlation, PendingReply)
        reply.correlation.answer(reply.response)
    if replies:
        asyncio.get_running_loop().call_soon(_answer, replies)


def _taken_back(reply: Reply) -> Reply:
    """An answer of a group that the log may not have, as a refusal."""
    assert isinstance(reply.correlation, PendingReply)
    refusal = reply.correlation.refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Reply(reply.correlation, refusal)


def _thread_for_records() -> Callable[[Callable[[], Any]], Awaitable[Any]]:
    """Return what calls work on a thread of its own, which begins with the first and ends with who
    asks for it.
    """
    executor = ThreadPoolExecutor(1, "records-of-groups")

    async def call(work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(executor, work)

    return call


class GroupMachine:
    """The groups of one partition, as the runtime drives them."""

    def __init__(self, store: GroupStore, shard: GroupShard) -> None:
        self._store = store
        self._shard = shard
        self._loaded: dict[str, CoordinatedGroup] = {}
        groups = store.consumer_groups
        read = None if groups is None else lambda timeline: groups().replay(timeline)
        replay = GroupReplay(shard.timeline, read)
        self._read_groups = replay.groups
        self._read_consumer_groups = replay.consumer_groups
        self._in_transaction = replay.in_transaction  # producer id -> groups, maybe of the past
        self.record = replay.record
        self.marker = replay.marker
        self.open_producers = replay.open_producers

    def finish_load(self) -> Generator[None, None, bool]:
        """Put the groups together."""
        for consumer_group, offsets in self._read_consumer_groups():
            assert self._store.consumer_groups is not None
            made = self._store.consumer_groups().made(consumer_group, self._shard, offsets)
            self._loaded[consumer_group.group_id] = made
            yield
        for group in self._read_groups():
            self._loaded[group.group_id] = ClassicGroup(group, self._shard, self._store.config)
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
                yield coordinated.offsets

    def _forget_groups_without(self, producer_id: int) -> None:
        if not any(
            offsets.pending.has_pending(producer_id) for offsets in self._offsets_of(producer_id)
        ):
            self._in_transaction.pop(producer_id, None)


GroupShard = Shard[GroupMachine]
