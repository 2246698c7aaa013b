"""Appends whose batches take long to check, convert or compress: they wait here, are prepared on a
worker thread, and then appended.

Law: in a partition, first come, first appended, so that a producer's batches stay in order. While
an append to a partition waits here, so does every later one of a client, however small. Requests
for other partitions do not: `LongWork` does pieces of all in turn. Leadership, settings and
sequences are checked again when the append is made. The bytes that wait are bounded: beyond that, a
producer has to try again.

Owned by the event loop. The records are the request's own buffer, which is kept until its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.append.append_preparation import Preparation, Prepared
from kbroker.model import TopicPartition
from kbroker.record.record_stream import Pace
from kbroker.replication.long_work import LongWork
from kbroker.replication.partitions.produce_result import PartitionProduceResult

MOST_WAITING_BYTES: Final = 256 * 1024 * 1024


class LongEntry(NamedTuple):
    """One partition's records, and the result to fill in."""

    result: PartitionProduceResult
    records: memoryview | bytearray


class LongRequest(Protocol):
    """The request that the entries belong to, which knows how to append them."""

    def prepare(self, entry: LongEntry) -> Preparation | None:
        """Return the work to do beforehand; None if the entry was refused."""
        ...

    def append(self, entry: LongEntry, prepared: Prepared | KafkaError) -> bool:
        """Append what was prepared, or refuse it; False if it has to be prepared again."""
        ...


@dataclass(slots=True, eq=False, repr=False)
class _Job:
    """The long appends of one request, one for each partition."""

    request: LongRequest
    entries: Sequence[LongEntry]
    done: asyncio.Future[None]
    size_bytes: int

    @property
    def partitions(self) -> list[TopicPartition]:
        return [entry.result.topic_partition for entry in self.entries]


class LongAppends:
    """The requests with appends here, each with a task of its own."""

    def __init__(self, work: LongWork) -> None:
        self.waiting: dict[TopicPartition, asyncio.Task[None]] = {}  # each partition's last one
        self._work = work
        self._jobs: dict[asyncio.Task[None], _Job] = {}
        self._bytes = 0

    def add(self, request: LongRequest, entries: Sequence[LongEntry]) -> asyncio.Future[None]:
        """Take on these appends; the future is done once each has its result."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        size_bytes = sum(len(entry.records) for entry in entries)
        if self._jobs and self._bytes + size_bytes > MOST_WAITING_BYTES:
            _refuse_all(entries, ErrorCode.REQUEST_TIMED_OUT)
            done.set_result(None)
            return done
        self._bytes += size_bytes
        job = _Job(request, entries, done, size_bytes)
        before = {self.waiting[each] for each in job.partitions if each in self.waiting}
        task = loop.create_task(self._run(job, before), name="long-append")
        self._jobs[task] = job
        self.waiting.update(dict.fromkeys(job.partitions, task))
        task.add_done_callback(self._end)
        return done

    def shutdown(self) -> None:
        """Append nothing more, and refuse what waits: it may be sent to the next leader."""
        for task, job in list(self._jobs.items()):
            task.cancel()
            _refuse_all(job.entries, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._end(task)

    async def _run(self, job: _Job, before: set[asyncio.Task[None]]) -> None:
        if before:
            await asyncio.wait(before)
        try:
            await self._append(job)
        except Exception as error:  # a bug: its request reports it, the others go on
            if not job.done.done():
                job.done.set_exception(error)

    async def _append(self, job: _Job) -> None:
        request = job.request
        left = list(job.entries)
        while left:
            steps = [(entry, step) for entry in left if (step := request.prepare(entry))]
            preparing = _Preparing([step for _, step in steps])
            least_bytes = sum(step.least_bytes for step in preparing.steps)
            outcomes = await self._work.run(_Preparing.go_on, preparing, least_bytes)
            left = [
                entry
                for (entry, _), outcome in zip(steps, outcomes, strict=True)
                if not request.append(entry, outcome)
            ]

    def _end(self, task: asyncio.Task[None]) -> None:
        job = self._jobs.pop(task, None)
        if job is None:
            return
        if task.cancelled():
            _refuse_all(job.entries, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._bytes -= job.size_bytes
        for partition in job.partitions:
            if self.waiting.get(partition) is task:
                del self.waiting[partition]
        if not job.done.done():
            job.done.set_result(None)


@dataclass(slots=True, eq=False, repr=False)
class _Preparing:
    """The steps of a request, and the outcomes so far."""

    steps: Sequence[Preparation]
    outcomes: list[Prepared | KafkaError] = field(default_factory=list)

    def go_on(self, pace: Pace) -> list[Prepared | KafkaError]:
        """The outcome of each step, on a worker thread; finished steps are not repeated."""
        for step in self.steps[len(self.outcomes) :]:
            self.outcomes.append(_prepared(step, pace))
        return self.outcomes


def _prepared(step: Preparation, pace: Pace) -> Prepared | KafkaError:
    try:
        return step.run(pace)
    except KafkaError as error:
        return error


def _refuse_all(entries: Sequence[LongEntry], code: ErrorCode) -> None:
    for entry in entries:
        if entry.result.base_offset < 0:
            entry.result.error_code = code
