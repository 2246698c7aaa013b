"""Fetches of consumers and followers: answered at once, or when there is something to read.

Owned by the event loop. `fetch_reader` reads, `delayed_fetch` waits, `down_conversion` serves old
formats. A follower's fetch also says how far it has come: that may move the high watermark, and
wakes the fetches that wait for it. A session lets a consumer ask for any number of partitions with
a few bytes: many are read in slices between which others run, and the memory of all such fetches
that wait is bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from operator import attrgetter

from kbroker.clock import Clock
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.replication.partitions.hosted_partitions import HostedPartitions
from kbroker.replication.reads.delayed_fetch import DelayedFetch, WideFetch
from kbroker.replication.reads.fetch_context import FetchContext
from kbroker.replication.reads.fetch_params import FetchParams, FetchPartition
from kbroker.replication.reads.fetch_reader import FetchOutcome, FetchReader
from kbroker.replication.replication_quota import ReplicationQuotas
from kbroker.replication.waiting.delayed_operation_purgatory import EVERY_KEY
from kbroker.replication.waiting.purgatories import Purgatories
from kbroker.turns import turn

Answers = list[FetchResponse.PartitionData]

FEW_PARTITIONS = 1_000  # are read at once, in a few milliseconds
SLICE_PARTITIONS = 250
# A partition that no session keeps takes some 600 bytes while its fetch waits.
WAITING_PARTITIONS_MAX = 64 * 1024
ALWAYS_WAITS = 100  # partitions of a fetch: no more than its connection takes
_topic_partition = attrgetter("topic_partition")


class Fetches:
    """Reads the partitions of a broker for its fetchers."""

    def __init__(
        self,
        hosted: HostedPartitions,
        clock: Clock,
        waiting: Purgatories,
        quotas: ReplicationQuotas,
    ) -> None:
        self._hosted = hosted
        self._clock = clock
        self._waiting = waiting
        self._quotas = quotas
        self._reader = FetchReader(hosted, clock, quotas)
        self.waiting_partitions = 0  # of fetches of more than ALWAYS_WAITS without a session

    def fetch(
        self,
        params: FetchParams,
        asked_for: list[FetchPartition],
        context: FetchContext | None = None,
    ) -> Answers | Awaitable[Answers]:
        """Read from each partition, in the order asked for; a plain list if nothing has to wait.

        Waits up to `max_wait_ms` while there is less than `min_bytes` to read and nothing that has
        to be answered at once (see `FetchOutcome`). It waits for a session's quiet partitions too,
        and adds one to `asked_for` when it changes. If the request is over before all is read, the
        answer has only the entries that were.
        """
        if len(asked_for) > FEW_PARTITIONS and params.replica_id < 0:
            return self._fetch_many(params, asked_for, context)
        session = None if context is None else context.session
        quiet = None if session is None else session.quiet
        others = 0 if quiet is None else len(quiet)
        outcome = self._reader.read(params, asked_for, others)
        if params.replica_id >= 0:
            self._note_follower(params, asked_for, outcome)
        if _is_enough(params, outcome) or not (asked_for or others):
            return outcome.partitions
        future: asyncio.Future[Answers] = self._waiting.create_future()
        if len(asked_for) > ALWAYS_WAITS and not self._may_wait(params, asked_for, context, future):
            return outcome.partitions
        # A follower waits for the requests that came along with the one whose records it waits
        # for, and gets the records of all of them at once.
        later = self._waiting.complete_soon if params.replica_id >= 0 else None
        operation = DelayedFetch(params, asked_for, outcome, self._reader.read, future, later)
        if quiet is not None:
            quiet.wait(operation)
        keys = map(_topic_partition, asked_for)
        return self._waiting.fetches.hold(operation, keys, params.max_wait_ms, future)

    def _may_wait(
        self,
        params: FetchParams,
        asked_for: Sequence[FetchPartition],
        context: FetchContext | None,
        future: asyncio.Future[Answers],
    ) -> bool:
        """Whether there is room to keep the request's partitions until `future` is done."""
        if params.replica_id >= 0 or (context is not None and context.session is not None):
            return True
        size = len(asked_for)
        if self.waiting_partitions + size > WAITING_PARTITIONS_MAX:
            return False
        self.waiting_partitions += size
        future.add_done_callback(lambda _done: self._waits_no_more(size))
        return True

    def _waits_no_more(self, size: int) -> None:
        self.waiting_partitions -= size

    async def _fetch_many(
        self, params: FetchParams, asked_for: list[FetchPartition], context: FetchContext | None
    ) -> Answers:
        """Fetch in slices, and watch from the start for changes of partitions already read."""
        future: asyncio.Future[Answers] = self._waiting.create_future()
        if not self._may_wait(params, asked_for, context, future):
            params = replace(params, max_wait_ms=0)
        operation = WideFetch(params, self._reader.read, future)
        session = None if context is None else context.session
        if session is not None:
            session.end_wait = operation.end
        try:
            self._waiting.fetches.hold(operation, EVERY_KEY, params.max_wait_ms, future)
            outcome = await self._read_in_slices(params, asked_for, context, operation)
            if not _is_enough(params, outcome):
                del outcome  # or this keeps it while it waits
                await future
                outcome = await self._read_in_slices(params, asked_for, context)
        finally:
            future.cancel()
            if session is not None and session.end_wait == operation.end:
                session.end_wait = None
        return outcome.partitions

    async def _read_in_slices(
        self,
        params: FetchParams,
        asked_for: Sequence[FetchPartition],
        context: FetchContext | None,
        operation: WideFetch | None = None,
    ) -> FetchOutcome:
        outcome, total = FetchOutcome(), len(asked_for)
        for start in range(0, total, SLICE_PARTITIONS):
            if context is not None and context.is_over:
                break
            part = asked_for[start : start + SLICE_PARTITIONS]
            self._reader.read(params, part, total - start - len(part), outcome)
            if operation is not None:
                found = zip(part, outcome.available[start:], strict=True)
                operation.was_read(
                    each for each in found if self._hosted.find(each[0].topic_partition)
                )
            await turn()
        return outcome

    def count_sent(self, asked_for: Sequence[FetchPartition], answers: Answers) -> None:
        """Count the bytes that a follower is sent; those that are throttled, also if it is in
        sync.
        """
        topics, quotas = self._hosted.topics, self._quotas
        for asked in asked_for:
            topics.replication_bytes_out.value += asked.found_bytes
        if quotas.leader.limit is None:
            return
        size = 0
        for asked, data in zip(asked_for, answers, strict=True):
            if not data.records:
                continue
            partition = self._hosted.find(asked.topic_partition)
            if partition is not None and quotas.throttles_leader(
                *asked.topic_partition, partition.log.config
            ):
                size += len(data.records)
        if size:
            quotas.leader.record(size, self._clock.monotonic_ms())

    def _note_follower(
        self, params: FetchParams, asked_for: Sequence[FetchPartition], outcome: FetchOutcome
    ) -> None:
        now_ms = self._clock.now_ms()
        for asked, data in zip(asked_for, outcome.partitions, strict=True):
            topic_partition = asked.topic_partition
            partition = self._hosted.find(topic_partition)
            if partition is None or data.error_code or data.diverging_epoch.epoch >= 0:
                continue
            if partition.follower_fetched(
                params.replica_id,
                asked.fetch_offset,
                asked.log_start_offset,
                now_ms,
                replica_epoch=params.replica_epoch,
            ):
                self._waiting.wake(topic_partition)
            self._waiting.deletions.check_and_complete(topic_partition)


def _is_enough(params: FetchParams, outcome: FetchOutcome) -> bool:
    """Whether the fetch is answered without further waiting."""
    return (
        outcome.available_bytes >= params.min_bytes
        or outcome.must_answer
        or params.max_wait_ms <= 0
    )
