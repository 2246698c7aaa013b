"""Appends whose batches take long to check, convert or compress: they wait here, are prepared on a
worker thread, and are appended then.

Law: first come, first appended, so that a producer's batches stay in order. While an append to a
partition waits here, every later one of a client to that partition does too, however small.
Leadership, settings and sequences are looked at again when the append is made. The bytes that wait
are bounded: beyond that a producer is told to try again.

Owned by the event loop. The records are the request's own buffer, which stays until its answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.append.append_preparation import Preparation, Prepared
from kbroker.model import TopicPartition
from kbroker.replication.long_work import LongWork
from kbroker.replication.produce_result import PartitionProduceResult

MOST_WAITING_BYTES: Final = 256 * 1024 * 1024


class LongEntry(NamedTuple):
    """One partition's records, and the result that is filled in."""

    result: PartitionProduceResult
    records: memoryview | bytearray


class LongRequest(Protocol):
    """The request that the entries are of, which knows how to append."""

    def prepare(self, entry: LongEntry) -> Preparation | None:
        """Return the work to do beforehand; None where the entry was refused."""
        ...

    def append(self, entry: LongEntry, prepared: Prepared | KafkaError) -> bool:
        """Append what was prepared, or refuse; False where it is to be prepared again."""
        ...


class _Job(NamedTuple):
    request: LongRequest
    entries: Sequence[LongEntry]
    done: asyncio.Future[None]
    size_bytes: int


class LongAppends:
    """The queue, and the task that works through it while there is any."""

    def __init__(self, work: LongWork) -> None:
        self.waiting: dict[TopicPartition, int] = {}  # how many appends of a partition are here
        self._work = work
        self._jobs: deque[_Job] = deque()
        self._bytes = 0
        self._task: asyncio.Task[None] | None = None

    def add(self, request: LongRequest, entries: Sequence[LongEntry]) -> asyncio.Future[None]:
        """Take these on; the future is done when each has its result."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        size_bytes = sum(len(entry.records) for entry in entries)
        if self._jobs and self._bytes + size_bytes > MOST_WAITING_BYTES:
            _refuse_all(entries, ErrorCode.REQUEST_TIMED_OUT)
            done.set_result(None)
            return done
        for entry in entries:
            partition = entry.result.topic_partition
            self.waiting[partition] = self.waiting.get(partition, 0) + 1
        self._bytes += size_bytes
        self._jobs.append(_Job(request, entries, done, size_bytes))
        if self._task is None:
            self._task = loop.create_task(self._run(), name="long-appends")
        return done

    def shutdown(self) -> None:
        """Append nothing more: what waits is refused, and may be sent to the next leader."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        while self._jobs:
            job = self._jobs[0]
            _refuse_all(job.entries, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._end(job)

    async def _run(self) -> None:
        while self._jobs:
            job = self._jobs[0]
            try:
                await self._append(job)
            except Exception as error:  # a bug: its request tells of it, the others go on
                if not job.done.done():
                    job.done.set_exception(error)
            self._end(job)
        self._task = None

    async def _append(self, job: _Job) -> None:
        request = job.request
        left = list(job.entries)
        while left:
            steps = [(entry, step) for entry in left if (step := request.prepare(entry))]
            outcomes = await self._work.run(_prepare_all, [step for _, step in steps])
            left = [
                entry
                for (entry, _), outcome in zip(steps, outcomes, strict=True)
                if not request.append(entry, outcome)
            ]

    def _end(self, job: _Job) -> None:
        self._jobs.popleft()
        self._bytes -= job.size_bytes
        for entry in job.entries:
            partition = entry.result.topic_partition
            self.waiting[partition] -= 1
            if not self.waiting[partition]:
                del self.waiting[partition]
        if not job.done.done():
            job.done.set_result(None)


def _prepare_all(steps: Sequence[Preparation]) -> list[Prepared | KafkaError]:
    """On a worker thread: the outcome of each."""
    return [_prepared(step.run) for step in steps]


def _prepared(run: Callable[[], Prepared]) -> Prepared | KafkaError:
    try:
        return run()
    except KafkaError as error:
        return error


def _refuse_all(entries: Sequence[LongEntry], code: ErrorCode) -> None:
    for entry in entries:
        if entry.result.base_offset < 0:
            entry.result.error_code = code
