"""ReplicaFetcher: copies partitions from one leader, as a task of the event loop.

Law: after every await the partition may be led by another broker, or by this one. So an answer for
a partition counts only while the fetcher still has the state it asked with, and that state ends
with the leadership it was made for. A log is touched between two awaits, never across one. The
leader takes the position in the next request for stored: it moves after the append.

A partition in trouble is left out for a while, and the others go on. Owned by the event loop. The
rules of truncation and errors are those of Kafka's AbstractFetcherThread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.partition.leader_epoch_cache import EpochEndOffset
from kbroker.log.partition.log import Log
from kbroker.model import TopicPartition
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.protocol.request import Piece
from kbroker.replication.fetchers.fetch_states import NO_EPOCH, FetchState, FetchStates
from kbroker.replication.fetchers.fetcher_parts import FetcherParts
from kbroker.replication.fetchers.leader_end_point import LeaderEndPoint, answered_partitions
from kbroker.replication.fetchers.session_handler import FetchSessionHandler, is_session_error
from kbroker.replication.fetchers.truncation import truncation_for
from kbroker.replication.partitions.follower_parts import parts_for
from kbroker.replication.partitions.partition import Partition

PartitionData = FetchResponse.PartitionData

# Stored before others run, unless one batch is larger: of the smallest batches, 15 ms of work.
_SLICE_BYTES = 256 * 1024
_log = logging.getLogger(__name__)

_EXPECTED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors that pass once leader and follower have heard the same from the controller."""


class ReplicaFetcher:
    """Follows one leader; `open_end_point` connects to it, or returns None while it is unknown."""

    def __init__(
        self, name: str, parts: FetcherParts, open_end_point: Callable[[], LeaderEndPoint | None]
    ) -> None:
        self.name = name
        self.states = FetchStates()
        self._fetches = 0
        self._parts = parts
        self._open_end_point = open_end_point
        self._leader: LeaderEndPoint | None = None
        self._asks_for_epochs = False  # the leader's answers do not say where logs part
        self._session = FetchSessionHandler()
        self._out_of_range: list[FetchState] = []
        self._added = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # For the manager.

    @property
    def fetches(self) -> int:
        """How many answers came."""
        return self._fetches

    def start(self) -> None:
        """Begin to fetch, in a task."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self.name)

    async def stop(self) -> None:
        """Return once nothing is being fetched."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._disconnect()

    def add(self, partition: Partition) -> None:
        """Follow a partition from its log end on. If its log has no epochs, or the leader's answers
        do not say where logs part, find that out first.
        """
        log = partition.log
        last_epoch = log.leader_epoch_cache.latest_epoch
        has_epochs = last_epoch != NO_EPOCH
        self.states.add(
            FetchState(
                topic_partition=partition.topic_partition,
                topic_id=partition.topic_id,
                leader_epoch=partition.leader_epoch,
                fetch_offset=log.log_end_offset if has_epochs else log.high_watermark,
                last_fetched_epoch=last_epoch,
                log_start_offset=log.log_start_offset,
                is_truncating=not has_epochs or self._asks_for_epochs,
            )
        )
        self._added.set()

    def remove(self, topic_partition: TopicPartition) -> None:
        """Stop following a partition; an answer on its way no longer counts for it."""
        self.states.remove(topic_partition)

    # The task.

    async def _run(self) -> None:
        while True:
            try:
                await self._work()
            except (OSError, TimeoutError) as error:
                _log.info("%s: %s; trying again", self.name, error)
                self._session.on_failure()
                self._disconnect()
                await self._pause()
            except Exception:
                _log.exception("%s failed, and goes on", self.name)
                self._session.on_failure()
                await self._pause()

    async def _pause(self) -> None:
        await self._parts.sleep(self._parts.backoff_ms() / 1000)

    def _disconnect(self) -> None:
        leader, self._leader = self._leader, None
        if leader is not None:
            leader.close()

    async def _work(self) -> None:
        """Do one round: truncate what has to be, fetch what can be."""
        states, now_ms = self.states, self._parts.clock.monotonic_ms()
        self._parts.throttle.hold_back(states, now_ms)
        states.end_delays(now_ms)
        if not states.truncating() and not states.has_fetching() and not states.must_ask:
            await self._wait(states.next_delay_ms(now_ms))
            return
        leader = self._leader or await self._reach()
        if leader is None:
            await self._pause()
            return
        self._out_of_range.clear()
        truncating = states.truncating()
        if truncating:
            await self._truncate(leader, truncating)
        await self._fetch(leader)

    async def _reach(self) -> LeaderEndPoint | None:
        """Connect, and learn what the leader's answers say; None while its address is unknown."""
        leader = self._open_end_point()
        if leader is None:
            return None
        try:
            self._asks_for_epochs = not await leader.reports_divergence()
        except BaseException:
            leader.close()
            raise
        self._leader = leader
        if self._asks_for_epochs:
            self.states.truncate_all()
        return leader

    async def _wait(self, delay_ms: float | None) -> None:
        """Wait until there may be something to do."""
        self._added.clear()
        try:
            async with asyncio.timeout(None if delay_ms is None else delay_ms / 1000):
                await self._added.wait()
        except TimeoutError:
            return

    # Truncation.

    async def _truncate(self, leader: LeaderEndPoint, states: list[FetchState]) -> None:
        """Cut the logs of these partitions where they part from the leader's."""
        with_epoch = [state for state in states if state.last_fetched_epoch != NO_EPOCH]
        for state in states:
            if state.last_fetched_epoch == NO_EPOCH:
                self._cut(state, state.fetch_offset, is_complete=True)
        if not with_epoch:
            return
        answers = await leader.epoch_end_offsets(with_epoch)
        for state in with_epoch:
            if not self.states.is_ready(state):
                continue
            answer = answers.get(state.topic_partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if isinstance(answer, EpochEndOffset):
                self._part(state, answer)
            else:
                self._on_error(state, answer)

    def _part(self, state: FetchState, leader_end: EpochEndOffset) -> None:
        """Cut a log where the leader's parts from it."""
        partition = self._partition(state)
        if partition is None:
            return
        log = partition.log
        cut = truncation_for(
            leader_end, log.leader_epoch_cache, log.log_end_offset, log.high_watermark
        )
        if cut.offset < log.high_watermark:
            _log.warning(
                "%s is cut to %d, below its high watermark %d: an earlier leader had not stored it",
                state.topic_partition,
                cut.offset,
                log.high_watermark,
            )
        asked_from, is_settled = state.position, state.is_truncating and cut.is_complete
        self._cut(state, cut.offset, is_complete=cut.is_complete)
        if state.position == asked_from and not is_settled and self.states.is_ready(state):
            self._delay(state)  # the same answer would come again at once, forever

    def _cut(self, state: FetchState, offset: int, *, is_complete: bool) -> bool:
        """Cut a log; False if that was refused."""
        partition = self._partition(state)
        if partition is None:
            return False
        log = partition.log
        try:
            log.truncate_to(offset, self._parts.clock.now_ms())
        except KafkaError as error:
            self._on_failed_log(state, error)
            return False
        _note_position(state, partition)
        if is_complete or not state.is_truncating:
            self.states.moved(state)
        self._parts.wake(state.topic_partition)
        return True

    # Fetching.

    async def _fetch(self, leader: LeaderEndPoint) -> None:
        states, step = self.states, self._session.next
        asked, forgotten = states.next_request(is_full=step.is_full)
        if not asked and not forgotten and not states.has_fetching():
            return
        positions = {state.topic_partition: state.position for state in asked}
        response = await leader.fetch(
            step,
            asked,
            forgotten,
            by_name=not states.have_ids,
            may_wait=not states.must_hurry,
        )
        self._fetches += 1
        if not self._session.on_answer(response.error_code, response.session_id):
            if not is_session_error(response.error_code):
                raise ConnectionError(f"the leader answered {ErrorCode(response.error_code).name}")
            return
        await self._take(response, positions)
        while self._out_of_range:
            await self._find_range(leader, self._out_of_range.pop())

    async def _take(
        self,
        response: FetchResponse,
        positions: dict[TopicPartition, tuple[int, int, int, int]],
    ) -> None:
        """Store what came, except for partitions whose position has changed since."""
        held_bytes = 0  # stored since others ran
        for topic_partition, data in answered_partitions(response, self.states.topic_name):
            state: FetchState | None = None
            for records in parts_for(_buffer(data.records), _SLICE_BYTES):
                if held_bytes and held_bytes + len(records) > _SLICE_BYTES:
                    held_bytes = 0
                    await self._parts.sleep(0)
                if state is None:
                    state = self._expecting(topic_partition, positions)
                if state is None or not self.states.is_ready(state):
                    break
                held_bytes += len(records)
                try:
                    self._take_partition(state, data, records)
                except Exception:
                    _log.exception("%s: %s is left out for a while", self.name, topic_partition)
                    self._go_on_later(state)

    def _expecting(
        self,
        topic_partition: TopicPartition,
        positions: dict[TopicPartition, tuple[int, int, int, int]],
    ) -> FetchState | None:
        """The state that an answer for the partition belongs to, if it still counts."""
        state = self.states.find(topic_partition)
        if state is None or not self.states.is_expected(state):
            return None
        return state if positions.get(topic_partition, state.position) == state.position else None

    def _take_partition(self, state: FetchState, data: PartitionData, records: memoryview) -> None:
        partition = self._partition(state)
        if partition is None:
            return
        if data.error_code:
            self._on_error(state, ErrorCode(data.error_code))
        elif data.diverging_epoch.epoch >= 0:
            self._part(
                state, EpochEndOffset(data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            )
        else:
            self._store(state, partition, data, records)

    def _store(
        self, state: FetchState, partition: Partition, data: PartitionData, records: memoryview
    ) -> None:
        log = partition.log
        assert state.fetch_offset == log.log_end_offset, (state.fetch_offset, partition)
        has_moved = False
        try:
            self._drop_unproven(state, log, data.log_start_offset)
            if records:
                now_ms = self._parts.clock.now_ms()
                info = partition.append_as_follower(records, now_ms, data.log_start_offset)
                has_moved = info is not None
                self._parts.hosted.topics.replication_bytes_in.value += len(records)
                self._parts.throttle.copied(partition, len(records))
            has_moved |= partition.follow_leader(data.high_watermark, data.log_start_offset)
        except KafkaError as error:
            self._on_failed_log(state, error)
        asked_from = state.position
        _note_position(state, partition)
        state.lag = max(0, data.high_watermark - state.fetch_offset)
        if self.states.is_ready(state):
            if state.position != asked_from:
                self.states.moved(state)
            elif records:
                # The leader sent nothing that this log could take, and would do so again at once.
                self._report(state, f"no batch is whole in {len(records)} bytes that came")
                self._delay(state)
        if has_moved:
            self._parts.wake(state.topic_partition)

    def _drop_unproven(self, state: FetchState, log: Log, leader_start: int) -> None:
        """Start over where the leader's log starts if the records before it cannot be compared: a
        later leader has deleted its own. They are of no use to anybody, but the producer state from
        them would acknowledge batches that are lost.
        """
        if (
            log.log_end_offset == leader_start > log.high_watermark
            and log.leader_epoch_cache.latest_epoch < state.leader_epoch
        ):
            _log.info(
                "%s starts over at %d, where its leader's does", log.topic_partition, leader_start
            )
            log.truncate_fully_and_start_at(leader_start, self._parts.clock.now_ms())

    # Errors.

    def _on_error(self, state: FetchState, code: ErrorCode) -> None:
        if code is ErrorCode.FENCED_LEADER_EPOCH:
            # The leader has heard more from the controller than this broker so far.
            _log.info("%s: epoch %d is over", state.topic_partition, state.leader_epoch)
            self.states.remove(state.topic_partition)
        elif code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range.append(state)
        else:
            if code not in _EXPECTED:
                self._report(state, f"answered with {code.name}")
            self._delay(state)

    async def _find_range(self, leader: LeaderEndPoint, state: FetchState) -> None:
        """Find where to go on: the leader's log begins after this one's end, or ends before it."""
        try:
            leader_end = await leader.end_offset(state)
            if self._cut_what_is_beyond(state, leader_end):
                return
            leader_start = await leader.start_offset(state)
        except KafkaError as error:
            if self.states.is_ready(state):
                self._on_error(state, error.code)
            return
        self._start_over(state, leader_start)

    def _cut_what_is_beyond(self, state: FetchState, leader_end: int) -> bool:
        """Cut the log to the leader's end; False if it does not end after that."""
        partition = self._partition(state) if self.states.is_ready(state) else None
        if partition is None or (end := partition.log_end_offset) <= leader_end:
            return False
        if self._cut(state, leader_end, is_complete=True):
            _log.warning(
                "%s ended at %d, its leader's log at %d: that was elected without what is cut off",
                state.topic_partition,
                end,
                leader_end,
            )
        return True

    def _start_over(self, state: FetchState, leader_start: int) -> None:
        """Go on at the end of this log, or at the leader's start if that is later."""
        partition = self._partition(state) if self.states.is_ready(state) else None
        if partition is None:
            return
        log = partition.log
        if leader_start > (end := log.log_end_offset):
            try:
                log.truncate_fully_and_start_at(leader_start, self._parts.clock.now_ms())
            except KafkaError as error:
                self._on_failed_log(state, error)
                return
            _log.warning(
                "%s ended at %d, and its leader's log starts at %d: it is copied from there",
                state.topic_partition,
                end,
                leader_start,
            )
            self._parts.wake(state.topic_partition)
        asked_from = state.position
        _note_position(state, partition)
        if state.position != asked_from:
            self.states.moved(state)
        else:
            self._delay(state)  # it would be out of range again

    def _on_failed_log(self, state: FetchState, error: KafkaError) -> None:
        """Report what the own log refused: its directory may have failed or be full, or the bytes
        are bad. An unfinished cut has moved the log's end all the same.
        """
        self._report(state, f"not stored: {error}")
        self._go_on_later(state)

    def _go_on_later(self, state: FetchState) -> None:
        """Go on later from where the log ends now: a part may have been stored."""
        partition = self._partition(state)
        if partition is not None:
            _note_position(state, partition)
            self._delay(state)

    def _report(self, state: FetchState, trouble: str) -> None:
        """Log a trouble, once while it lasts."""
        if state.trouble != trouble:
            state.trouble = trouble
            _log.error("%s: %s: %s", self.name, state.topic_partition, trouble)

    def _delay(self, state: FetchState) -> None:
        if self.states.find(state.topic_partition) is state:
            until_ms = self._parts.clock.monotonic_ms() + self._parts.backoff_ms()
            self.states.delay(state, until_ms)

    def _partition(self, state: FetchState) -> Partition | None:
        """The partition, if it still follows in the epoch that the state was made for."""
        partition = self._parts.hosted.find(state.topic_partition)
        if partition is None or partition.is_leader or partition.leader_epoch != state.leader_epoch:
            self.states.remove(state.topic_partition)
            return None
        return partition


def _buffer(records: Piece | None) -> memoryview:
    if not records:
        return memoryview(b"")
    if isinstance(records, (bytes, bytearray, memoryview)):
        return memoryview(records)
    return memoryview(records.read())


def _note_position(state: FetchState, partition: Partition) -> None:
    """Enter into a state where the log ends now."""
    log = partition.log
    state.fetch_offset = log.log_end_offset
    state.log_start_offset = log.log_start_offset
    state.last_fetched_epoch = log.leader_epoch_cache.latest_epoch
