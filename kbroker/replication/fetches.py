"""Fetches of consumers and followers: answered at once, or when there is something to read.

Owned by the event loop. What one read gives is in `fetch_reader`, how a fetch waits in
`delayed_fetch`, old formats in `down_conversion`. A follower's fetch also says how far it has come:
that may move the high watermark, and wakes the fetches that wait for it. A consumer may ask for any
number of partitions, in a session with a few bytes: many are read in slices between which others
run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

from kbroker.clock import Clock
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.replication.delayed_fetch import DelayedFetch
from kbroker.replication.fetch_params import FetchParams, FetchPartition
from kbroker.replication.fetch_reader import FetchOutcome, FetchReader
from kbroker.replication.hosted_partitions import HostedPartitions
from kbroker.replication.purgatories import Purgatories
from kbroker.replication.quiet_partitions import QuietPartitions
from kbroker.replication.replication_quota import ReplicationQuotas

Answers = list[FetchResponse.PartitionData]

SLICE_PARTITIONS = 1_000  # a few milliseconds


class Fetches:
    """Fetches from the partitions that a broker holds."""

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

    def fetch(
        self,
        params: FetchParams,
        asked_for: list[FetchPartition],
        quiet: QuietPartitions | None = None,
    ) -> Answers | Awaitable[Answers]:
        """Read from each partition; a plain list where nothing has to be waited for.

        Entries are in the order asked for. It waits, up to `max_wait_ms`, while there is less than
        `min_bytes` to read and nothing that does not wait (see `FetchOutcome`). Those of a session
        that are `quiet` are waited for too; where something happens, they are added to `asked_for`.
        """
        if len(asked_for) > SLICE_PARTITIONS and params.replica_id < 0:
            return self._fetch_many(params, asked_for)
        others = 0 if quiet is None else len(quiet)
        outcome = self._reader.read(params, asked_for, others)
        if params.replica_id >= 0:
            self._note_follower(params, asked_for, outcome)
        if _is_enough(params, outcome) or not (asked_for or others):
            return outcome.partitions
        future: asyncio.Future[Answers] = self._waiting.create_future()
        later = self._complete_soon if params.replica_id >= 0 else None
        operation = DelayedFetch(params, asked_for, outcome, self._reader.read, future, later)
        if quiet is not None:
            quiet.wait(operation)
        keys = [asked.topic_partition for asked in asked_for]
        return self._waiting.fetches.hold(operation, keys, params.max_wait_ms, future)

    async def _fetch_many(self, params: FetchParams, asked_for: list[FetchPartition]) -> Answers:
        """As `fetch`; it waits from the begin, for what happens to a partition that was read."""
        future: asyncio.Future[Answers] = self._waiting.create_future()
        nothing = FetchOutcome()
        nothing.available = [0] * len(asked_for)
        operation = DelayedFetch(params, asked_for, nothing, self._look_at_one, future)
        keys = [asked.topic_partition for asked in asked_for]
        try:
            self._waiting.fetches.hold(operation, keys, params.max_wait_ms, future)
            outcome = await self._read_in_slices(params, asked_for)
            if not _is_enough(params, outcome):
                await future
                outcome = await self._read_in_slices(params, asked_for)
        finally:
            future.cancel()
        return outcome.partitions

    def _look_at_one(
        self, params: FetchParams, asked_for: Sequence[FetchPartition]
    ) -> FetchOutcome:
        """Whether a partition has something; the answer is read afterwards."""
        return self._reader.read(params, asked_for) if len(asked_for) == 1 else FetchOutcome()

    async def _read_in_slices(
        self, params: FetchParams, asked_for: Sequence[FetchPartition]
    ) -> FetchOutcome:
        outcome, total = FetchOutcome(), len(asked_for)
        for start in range(0, total, SLICE_PARTITIONS):
            part = asked_for[start : start + SLICE_PARTITIONS]
            self._reader.read(params, part, total - start - len(part), outcome)
            await asyncio.sleep(0)
        return outcome

    def _complete_soon(self, operation: DelayedFetch) -> None:
        """After the requests that have come with the one whose records it waits for: a follower
        then gets the records of all of them at once.
        """
        self._waiting.complete_soon(operation)

    def count_sent(self, asked_for: Sequence[FetchPartition], answers: Answers) -> None:
        """A follower is sent these: what is throttled counts, in-sync replicas included."""
        quotas = self._quotas
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
    """Whether the fetch is answered without waiting for more."""
    return (
        outcome.available_bytes >= params.min_bytes
        or outcome.must_answer
        or params.max_wait_ms <= 0
    )
