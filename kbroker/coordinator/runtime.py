"""What coordinators need of the outside: time, timers, held answers, appends to an internal topic
and its replay at the start.

Law: everything runs on the event loop and nothing blocks it for long; a long log is replayed in
slices. An append is reported as done when enough replicas have it (after the high watermark has
passed it, with acks -1).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from kbroker.clock import Clock, Timer, TimerHandle
from kbroker.coordinator.partition_replay import PartitionReplay, Replay
from kbroker.coordinator.sliced_work import SlicedWork
from kbroker.effects import Instant, KeyValue
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.append.log_append_info import AppendOrigin
from kbroker.log.log_replay import ReplayedLog
from kbroker.model import TopicPartition
from kbroker.record.record_batch import BatchOptions, Record, build
from kbroker.replication.produce_result import PartitionProduceResult

_log = logging.getLogger(__name__)

OFFSET_BATCH = BatchOptions(base_sequence=0)  # Kafka's coordinator numbers batches of commits
METADATA_BATCH = BatchOptions()
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})

ResultT = TypeVar("ResultT")
Appended = Callable[[ErrorCode, int], None]  # error, offset of the batch


class Replicas(Protocol):
    """The part of ReplicaManager that coordinators use."""

    def append_records(
        self,
        entries: list[tuple[TopicPartition, memoryview]],
        required_acks: int,
        timeout_ms: int,
        origin: AppendOrigin,
    ) -> list[PartitionProduceResult] | Awaitable[list[PartitionProduceResult]]:
        """Append one batch to each partition; one result for each."""
        ...


class PendingReply(Generic[ResultT]):
    """An answer that may be there at once, or may have to be waited for.

    No future is made where it is there.
    """

    __slots__ = ("_future", "_is_answered", "_result")

    def __init__(self) -> None:
        self._future: asyncio.Future[ResultT] | None = None
        self._is_answered = False
        self._result: ResultT | None = None

    def answer(self, result: ResultT) -> None:
        """Give the answer; the first one counts."""
        if self._is_answered:
            return
        self._is_answered = True
        self._result = result
        if self._future is not None and not self._future.done():
            self._future.set_result(result)

    def outcome(self) -> ResultT | Awaitable[ResultT]:
        """The answer, or something to await it with."""
        if self._is_answered:
            return self._result  # type: ignore[return-value]  # set together with the flag
        if self._future is None:
            self._future = asyncio.get_running_loop().create_future()
        return self._future


class CoordinatorRuntime:
    """Owned by the event loop; `close` cancels what is under way."""

    def __init__(
        self,
        replicas: Replicas,
        clock: Clock,
        timer: Timer,
        *,
        required_acks: int = -1,
        timeout_ms: int = 5000,
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._timer = timer
        self._required_acks = required_acks
        self._timeout_ms = timeout_ms
        self._in_doubt_since_ms: dict[TopicPartition, float] = {}  # monotonic
        self._timers: dict[Hashable, TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._sliced = SlicedWork(clock, self.start)

    # ---- time

    def now(self) -> Instant:
        """Both clocks."""
        return Instant(self._clock.now_ms(), self._clock.monotonic_ms())

    def monotonic_ms(self) -> float:
        """The clock of sessions."""
        return self._clock.monotonic_ms()

    def set_timer(self, key: Hashable, deadline_ms: float, callback: Callable[[], None]) -> None:
        """Run `callback` at `deadline_ms` (monotonic), instead of an earlier timer of that key."""
        self.cancel_timer(key)

        def fire() -> None:
            del self._timers[key]
            callback()

        delay = max(0.0, deadline_ms - self._clock.monotonic_ms())
        self._timers[key] = self._timer.call_later(delay, fire)

    def cancel_timer(self, key: Hashable) -> None:
        """Forget a timer, if it is set."""
        handle = self._timers.pop(key, None)
        if handle is not None:
            handle.cancel()

    async def sleep(self, delay_ms: float) -> None:
        """Let `delay_ms` pass on the timer's clock."""
        woken = asyncio.Event()
        handle = self._timer.call_later(delay_ms, woken.set)
        try:
            await woken.wait()
        finally:
            handle.cancel()

    # ---- tasks

    def start(self, work: Any, name: str) -> None:
        """Run a coroutine to its end; it is held and cancelled by `close`."""
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("%s ended", task.get_name(), exc_info=task.exception())

    def close(self) -> None:
        """Cancel all timers and tasks."""
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
        for task in list(self._tasks):
            task.cancel()

    # ---- replay

    def replay(self, partition: TopicPartition, log: ReplayedLog, replay: Replay) -> Iterator[None]:
        """Read a partition into `replay`; yields after each batch. What cannot be read is passed
        over, said once, and remembered by `may_forget`.

        Raises KafkaError KAFKA_STORAGE_ERROR where the disk refuses.
        """
        self._in_doubt_since_ms.pop(partition, None)
        reading = PartitionReplay(partition, log, replay)
        yield from reading.steps()
        if not reading.saw_everything:
            reading.tell()
            self._in_doubt_since_ms[partition] = self._clock.monotonic_ms()

    def may_forget(self, partition: TopicPartition, retention_ms: float) -> bool:
        """Whether what `partition` keeps may go because of its age.

        Not where the replay could not see everything, until `retention_ms` have passed since: what
        looks old, empty or unused may have been used in a record that cannot be read. Whoever still
        uses it will have said so again by then.
        """
        since_ms = self._in_doubt_since_ms.get(partition)
        return since_ms is None or self._clock.monotonic_ms() - since_ms >= retention_ms

    # ---- append

    def append(
        self,
        partition: TopicPartition,
        records: Iterable[KeyValue],
        appended: Appended,
        options: BatchOptions = METADATA_BATCH,
    ) -> None:
        """Append records as one batch.

        `appended` is called before this returns when nothing has to be waited for.
        """
        self._append(partition, records, appended, options, self._required_acks)

    def append_unacknowledged(
        self, partition: TopicPartition, records: Iterable[KeyValue], appended: Appended
    ) -> None:
        """Append records that would be written again if they got lost
        (tombstones of a clean-up), in several batches where one would be too large.
        """
        rows = list(records)

        def attempted(error: ErrorCode, offset: int) -> None:
            if error not in _TOO_LARGE or len(rows) < 2:
                appended(error, offset)
                return
            half = len(rows) // 2
            for part in (rows[:half], rows[half:]):
                self.append_unacknowledged(partition, part, appended)

        self._append(partition, rows, attempted, METADATA_BATCH, 0)

    def _append(
        self,
        partition: TopicPartition,
        records: Iterable[KeyValue],
        appended: Appended,
        options: BatchOptions,
        required_acks: int,
    ) -> None:
        now_ms = self._clock.now_ms()
        batch = build(
            [Record(at, now_ms, key, value) for at, (key, value) in enumerate(records)],
            options=options,
        )
        try:
            results = self._replicas.append_records(
                [(partition, memoryview(bytearray(batch)))],
                required_acks,
                self._timeout_ms,
                AppendOrigin.COORDINATOR,
            )
        except KafkaError as error:
            appended(error.code, -1)
            return
        except Exception:  # whoever waits for this append is told, whatever it is
            _log.exception("Append to %s failed", partition)
            appended(ErrorCode.UNKNOWN_SERVER_ERROR, -1)
            return
        if isinstance(results, list):
            appended(results[0].error_code, results[0].base_offset)
        else:
            self.start(_report(results, appended), f"append to {partition}")

    # ---- long work

    def run_sliced(self, steps: Iterator[None], name: str) -> None:
        """Work `steps` without holding up others; short work is done when this returns."""
        self._sliced.run(steps, name)


async def _report(results: Awaitable[list[PartitionProduceResult]], appended: Appended) -> None:
    try:
        result = (await results)[0]
    except KafkaError as error:
        appended(error.code, -1)
    except Exception:
        _log.exception("Append failed")
        appended(ErrorCode.UNKNOWN_SERVER_ERROR, -1)
    else:
        appended(result.error_code, result.base_offset)
