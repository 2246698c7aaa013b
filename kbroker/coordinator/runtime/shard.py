"""Shard: one partition of an internal topic that this broker leads, and the line of its writes.

Law: the state is what the log says, and nothing else: the next broker that loads the log must come
to the same state.

* A write enters the state (`replay`) when the log has taken it, at the latest, and the next
  decision rests on it at once. It is settled, and what rests on it is answered, when enough
  replicas have it.
* A write that the log refuses has not happened. Mostly that is known before the replay. If the
  write has entered the state before (a large batch is checked on a thread), its changes are rolled
  back, and so is every later write, except those that never change the state: even a write that
  changed nothing may have found nothing to change because of those before it. If the refused write
  comes again in parts, none of the later ones is left: the parts would follow what was decided on
  top of them.
* A write that is in the log but not confirmed in time stays, and only its answer is an error: as
  long as this broker leads, its log is what will be confirmed. To roll it back would make the state
  differ from what the next load finds.
* An answer that rests on a write waits for it, also if it writes nothing itself (`wait_for`): what
  the next load might not find is said to nobody.
* A partition that is given up is dropped whole, and read again by whoever leads it.
* A listener that hears how a write ended holds up nobody: if it fails, that is logged.

Writes reach the log in the order they were decided. Those that come while one is on its way to the
log stand in line, and go together in as few batches as they fit in.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Generic, NamedTuple, Protocol, TypeVar

from kbroker.coordinator.runtime.batch_append import (
    METADATA_BATCH,
    BatchAppend,
    Results,
    result_of,
)
from kbroker.coordinator.runtime.effects import KeyValue
from kbroker.coordinator.runtime.timeline import Timeline
from kbroker.errors import NO_ERROR, ErrorCode
from kbroker.log.append.append_rules import AppendRules
from kbroker.log.partition.log_replay import ReplayedLog
from kbroker.model import TopicPartition
from kbroker.record.record_batch import CONTROL_BIT, BatchOptions
from kbroker.replication.partitions.produce_result import PartitionProduceResult

_log = logging.getLogger(__name__)

# Of writes that are in the log, though not on enough replicas in time.
UNCONFIRMED = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_MAX_BATCHED_RECORDS = 500  # of writes that stood in line
_HEARD = UNCONFIRMED | {ErrorCode.NOT_LEADER_OR_FOLLOWER}  # by those who rest on a write
_NOBODY_WAITS = 0  # for replicas: the acks of what is written in parts

MachineT = TypeVar("MachineT")
# Takes a write into the state; offset of its batch, for those in line the one that it will have.
Replayed = Callable[[int], None]
ReplayedPart = Callable[[slice], None]  # takes some of the records into the state
Settled = Callable[[ErrorCode], None]  # NONE when it is stored, UNCONFIRMED, or why it never was


class ShardLog(ReplayedLog, Protocol):
    """The log of a partition, to be replayed and followed."""

    @property
    def high_watermark(self) -> int:
        """Exclusive end of what enough replicas have."""
        ...

    @property
    def rules(self) -> AppendRules: ...


class LedPartition(Protocol):
    """The part of a partition that a shard uses."""

    @property
    def topic_partition(self) -> TopicPartition: ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def log(self) -> ShardLog: ...


class BeingMade(NamedTuple):
    """Records that are being made."""

    records: asyncio.Future[Sequence[KeyValue]]
    number: int


class _Write(NamedTuple):
    """One decision that is not settled yet."""

    number: int
    records: Sequence[KeyValue]
    settled: Settled
    options: BatchOptions
    required_acks: int
    end_offset: int  # where it ends in the log, if none before it is refused
    may_share: bool = True  # a batch with others
    is_independent: bool = False  # of those before it: it changes nothing, whatever they did
    made: BeingMade | None = None  # the records, if they are not there yet

    @property
    def goes_in_parts(self) -> bool:
        """Return whether it comes again in parts if it is too large (`write_in_parts`)."""
        return self.required_acks == _NOBODY_WAITS and len(self.records) > 1

    def goes_with(self, other: _Write) -> bool:
        return (
            self.may_share
            and other.may_share
            and other.made is None
            and self.required_acks == other.required_acks
            and self.options == other.options
        )


class Shard(Generic[MachineT]):
    """A partition and the line of its writes. `machine` keeps the state, in `timeline`."""

    def __init__(self, partition: LedPartition, append: BatchAppend) -> None:
        self.topic_partition = partition.topic_partition
        self.epoch = partition.leader_epoch  # the coordinator's epoch
        self.is_loaded = False
        self.machine: MachineT | None = None
        self.timeline = Timeline()
        self._partition = partition
        self._append = append
        self._is_open = True  # nothing is on its way to the log, and nobody in line
        self._is_resigned = False
        self._last_number = 0
        self._ends: deque[tuple[int, int]] = deque()  # writes that are not stored; end offsets
        self._unconfirmed: dict[int, list[_Write]] = {}  # by their last number
        self._sending: list[_Write] | None = None  # on their way to the log
        self._line: deque[_Write] = deque()
        self._waiting: dict[int, list[Settled]] = {}  # for a write, by its number

    @property
    def log(self) -> ShardLog:
        """The partition's log; another one once it has moved to another disk."""
        return self._partition.log

    @property
    def max_batch_bytes(self) -> int:
        return self._partition.log.rules.max_message_bytes

    @property
    def next_offset(self) -> int:
        """Where the next write will be in the log, if none before it is refused."""
        before = self._line or self._sending
        return before[-1].end_offset if before else self.log.log_end_offset

    # ---- writes

    def write(
        self,
        records: Sequence[KeyValue],
        replay: Replayed,
        settled: Settled,
        options: BatchOptions = METADATA_BATCH,
        required_acks: int | None = None,
    ) -> None:
        """Append the records of one decision, as one batch.

        `settled` is called once, before this returns when nothing has to be waited for.
        """
        error = self.write_or_wait(records, replay, settled, options, required_acks)
        if error is not None:
            settled(error)

    def write_or_wait(
        self,
        records: Sequence[KeyValue],
        replay: Replayed,
        settled: Settled,
        options: BatchOptions = METADATA_BATCH,
        required_acks: int | None = None,
    ) -> ErrorCode | None:
        """Do as `write`, and return how it ended if nothing has to be waited for; `settled` is
        called later if this returns None, else not at all.
        """
        acks = self._append.required_acks if required_acks is None else required_acks
        if not self._is_open:
            return self._stand_in_line(records, replay, settled, options, acks)
        begin_offset = self._partition.log.log_end_offset
        outcome = self._append.append(self.topic_partition, records, options, acks)
        if isinstance(outcome, PartitionProduceResult):
            error = outcome.error_code
            if error is NO_ERROR:
                if self.timeline:
                    self._replay_after_others(replay, outcome.base_offset, acks)
                else:
                    replay(outcome.base_offset)
            return error
        number = self._note(replay, begin_offset)
        end_offset = begin_offset + len(records)
        write = _Write(number, records, settled, options, acks, end_offset)
        self._wait([write], outcome, begin_offset)
        return None

    def write_when_made(self, made: BeingMade, replay: Replayed, settled: Settled) -> None:
        """Append records that are being made. They have their place in line and enter the state at
        once, and whoever comes later waits; if they cannot be made they never were.
        """
        if self._is_resigned:
            settled(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        end_offset = self.next_offset + made.number
        number = self._note(replay, self.next_offset)
        acks = self._append.required_acks
        self._line.append(_Write(number, (), settled, METADATA_BATCH, acks, end_offset, made=made))
        self._is_open = False
        made.records.add_done_callback(lambda _: self._send_line())

    def write_in_parts(
        self, records: Sequence[KeyValue], replay: ReplayedPart, settled: Settled
    ) -> None:
        """Append records that would be written again if they got lost (tombstones of a clean-up).

        Nobody waits for replicas. What is too large for one batch goes in several, and each enters
        the state by itself. `settled` is called once, with a refusal if there was one.
        """
        self._write_part(records, slice(0, len(records)), replay, settled)

    def _write_part(
        self, records: Sequence[KeyValue], part: slice, replay: ReplayedPart, settled: Settled
    ) -> None:
        halves: list[ErrorCode] = []

        def half_settled(error: ErrorCode) -> None:
            halves.append(error)
            if len(halves) == 2:
                settled(halves[0] or halves[1])

        def attempted(error: ErrorCode) -> None:
            if error not in _TOO_LARGE or part.stop - part.start < 2:
                settled(error)
                return
            middle = (part.start + part.stop) // 2
            self._write_part(records, slice(part.start, middle), replay, half_settled)
            self._write_part(records, slice(middle, part.stop), replay, half_settled)

        self.write(records[part], lambda _: replay(part), attempted, METADATA_BATCH, _NOBODY_WAITS)

    def wait_for(self, number: int, heard: Settled) -> ErrorCode | None:
        """Wait for a write that is not stored, as `TimelineDict.last_write` numbers it, and for all
        before it; `heard` is called later if this returns None, else not at all.
        """
        if self._is_resigned:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        pending = [write.number for write in chain(*self._unconfirmed.values(), self._line)]
        before = [each for each in pending if each <= number]
        if not pending:  # it is in the log, and too few replicas had it in time
            return ErrorCode.REQUEST_TIMED_OUT
        awaited = max(before) if before else min(pending)
        self._waiting.setdefault(awaited, []).append(heard)
        return None

    def catch_up(self) -> None:
        """Take notice of what has been stored though nobody waited for it any more."""
        if self._ends:
            high_watermark = self.log.high_watermark
            while self._ends and self._ends[0][1] <= high_watermark:
                self._store(self._ends[0][0])

    def resign(self) -> None:
        """The broker leads no more: no write can be confirmed here."""
        self._is_resigned = True
        self._is_open = False
        abandoned = [*chain.from_iterable(self._unconfirmed.values()), *self._line]
        self._unconfirmed.clear()
        self._line.clear()
        self._settle(abandoned, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # ---- into the state

    def _replay_after_others(self, replay: Replayed, base_offset: int, acks: int) -> None:
        """The log has it. Earlier writes wait, and an acknowledged one is stored after them."""
        number = self._note(replay, base_offset)
        self._take(number)
        if acks:
            self._store(number)

    def _note(self, replay: Replayed, base_offset: int) -> int:
        self._last_number += 1
        self.timeline.begin(self._last_number)
        try:
            replay(base_offset)
        finally:
            self.timeline.end()
        return self._last_number

    def _take(self, number: int) -> None:
        self.timeline.take(number)
        self._ends.append((number, self.log.log_end_offset))

    def _store(self, number: int) -> None:
        self.timeline.store(number)
        while self._ends and self._ends[0][0] <= number:
            self._ends.popleft()

    # ---- on their way

    def _wait(
        self, batch: list[_Write], future: asyncio.Future[Results], begin_offset: int
    ) -> None:
        """The batch is in the log and not confirmed yet, or still on its way there."""
        last_number = batch[-1].number
        self._unconfirmed[last_number] = batch
        if self.log.log_end_offset > begin_offset:
            self._take(last_number)
        else:
            self._sending = batch
            self._is_open = False
        future.add_done_callback(partial(self._done, last_number))

    def _done(self, last_number: int, future: asyncio.Future[Results]) -> None:
        result = result_of(future, self.topic_partition)
        error = result.error_code
        batch = self._unconfirmed.pop(last_number, None)
        if batch is None:
            return  # resigned, and settled then
        if batch is self._sending:
            self._sending = None
            if result.base_offset < 0:
                self._refused(batch, error)
                self._send_line()
                return
            self._take(last_number)
        if error is NO_ERROR:
            self._store(last_number)
        else:
            self.catch_up()
        self._settle(batch, error)
        if not self._is_open:
            self._send_line()

    def _refused(self, batch: list[_Write], error: ErrorCode) -> None:
        """The log did not take it: it never was, nor what was decided on top of it."""
        if len(batch) > 1 and error in _TOO_LARGE:
            self._line.extendleft(write._replace(may_share=False) for write in reversed(batch))
            return
        self.timeline.roll_back(batch[0].number)
        comes_again = error in _TOO_LARGE and batch[0].goes_in_parts
        on_top = [write for write in self._line if comes_again or not write.is_independent]
        left = [write for write in self._line if write.is_independent and not comes_again]
        self._line.clear()
        end_offset = self.log.log_end_offset
        for write in left:
            end_offset += len(write.records)
            self._line.append(write._replace(end_offset=end_offset))
        try_again = ErrorCode.NOT_ENOUGH_REPLICAS
        self._settle(batch, try_again if error in UNCONFIRMED else error)
        self._settle(on_top, try_again)

    # ---- in line

    def _stand_in_line(
        self,
        records: Sequence[KeyValue],
        replay: Replayed,
        settled: Settled,
        options: BatchOptions,
        acks: int,
    ) -> ErrorCode | None:
        if self._is_resigned:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        begin_offset = self.next_offset
        number = self._note(replay, begin_offset)
        may_share = not options.flags & CONTROL_BIT  # a marker has a batch of its own
        end_offset = begin_offset + len(records)
        is_independent = replay is nothing
        self._line.append(
            _Write(number, records, settled, options, acks, end_offset, may_share, is_independent)
        )
        return None

    def _send_line(self) -> None:
        while self._line and self._sending is None:
            made = self._line[0].made
            if made is None:
                self._send(self._next_batch())
            elif made.records.done():
                self._take_made(made.records)
            else:
                break
        self._is_open = not (self._line or self._sending or self._is_resigned)

    def _take_made(self, made: asyncio.Future[Sequence[KeyValue]]) -> None:
        """Give the first in line its records, or refuse it if they could not be made."""
        first = self._line.popleft()
        if made.cancelled() or made.exception() is not None:
            self._refused([first], ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            self._line.appendleft(first._replace(records=made.result(), made=None))

    def _next_batch(self) -> list[_Write]:
        """Writes from the head of the line that share a batch."""
        first = self._line.popleft()
        batch, count = [first], len(first.records)
        while self._line and first.goes_with(self._line[0]):
            count += len(self._line[0].records)
            if count > _MAX_BATCHED_RECORDS:
                break
            batch.append(self._line.popleft())
        return batch

    def _send(self, batch: list[_Write]) -> None:
        last = batch[-1]
        begin_offset = self.log.log_end_offset
        rows = [row for write in batch for row in write.records]
        outcome = self._append.append(self.topic_partition, rows, last.options, last.required_acks)
        if not isinstance(outcome, PartitionProduceResult):
            self._wait(batch, outcome, begin_offset)
        elif outcome.error_code is not NO_ERROR:
            self._refused(batch, outcome.error_code)
        else:
            self._take(last.number)
            if last.required_acks:
                self._store(last.number)
            self._settle(batch, NO_ERROR)

    def _settle(self, writes: Iterable[_Write], error: ErrorCode) -> None:
        for write in writes:
            try:
                write.settled(error)
            except Exception:  # a bug: the others hear of it all the same, and the line goes on
                _log.exception(
                    "Failed at the end of a write to %s (%s)", self.topic_partition, error.name
                )
            if self._waiting:
                self._let_know(write.number, error)

    def _let_know(self, number: int, error: ErrorCode) -> None:
        """Let those who rest on a write hear why it is not stored, but of no fault in it."""
        if error is not NO_ERROR and error not in _HEARD:
            error = ErrorCode.NOT_ENOUGH_REPLICAS
        for heard in self._waiting.pop(number, ()):
            try:
                heard(error)
            except Exception:  # a bug, as above
                _log.exception("Failed after a write to %s", self.topic_partition)


def nothing(_base_offset: int) -> None:
    """The replay of records that change nothing by themselves."""
