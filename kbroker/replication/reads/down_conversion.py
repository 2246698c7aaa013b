"""Fetches of clients that know only old message formats: records are converted for them (KIP-283).

Law: small answers are converted at once, others as `LongWork`, one partition at a time for the
whole broker, and read only then: old clients cost bounded memory and never hold up the loop. An
answer holds no more bytes than were read for it, or one converted batch.

If all that was read are transaction markers, Kafka answers with a fragment that stops the consumer;
here the read goes on after them. It also goes on after batches that cannot be read, which are named
in the broker's log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.disk.file_system import StorageError
from kbroker.memory_room import Owner, while_there
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.protocol.request import Piece
from kbroker.replication.long_work import LongWork
from kbroker.replication.reads.fetch_params import FetchParams, FetchPartition
from kbroker.replication.reads.fetch_reader import refusal_entry
from kbroker.replication.reads.unreadable_batches import UnreadableBatches

if TYPE_CHECKING:
    from kbroker.record.conversion import DownConverted

PartitionData = FetchResponse.PartitionData
Answers = list[PartitionData]
Fetch = Callable[[FetchParams, list[FetchPartition]], Answers | Awaitable[Answers]]
Take = Callable[[int], Awaitable[object]]

_AT_ONCE_BYTES_MAX = 16 * 1024


class DownConversion:
    """Owned by the event loop."""

    def __init__(self, fetch: Fetch, work: LongWork) -> None:
        self._fetch = fetch
        self._work = work
        self._unreadable = UnreadableBatches("consumers of old formats are not given it")

    async def fetch(
        self,
        params: FetchParams,
        asked_for: Sequence[FetchPartition],
        take: Take | None = None,
        client: Owner | None = None,
    ) -> Answers:
        """Fetch, with records in format `params.max_magic` or older.

        `take` is awaited with the number of bytes before many are read. Raises ProtocolError if
        `client` goes while there is nothing to read.
        """
        asked = list(asked_for)
        while True:
            outcome = self._fetch(params, asked)
            if isinstance(outcome, asyncio.Future):
                outcome = await while_there(client, outcome)
            answers = outcome if isinstance(outcome, list) else await outcome
            size_bytes = sum(len(data.records) for data in answers if data.records)
            if take is not None and size_bytes > _AT_ONCE_BYTES_MAX:
                await take(size_bytes)
            answers, next_offsets = await self._convert_all(answers, asked, params.max_magic)
            read_on = [one.fetch_offset for one in asked] != next_offsets
            if not read_on or any(data.records or data.error_code for data in answers):
                return answers
            asked = [
                replace(one, fetch_offset=offset)
                for one, offset in zip(asked, next_offsets, strict=True)
            ]

    async def _convert_all(
        self, answers: Answers, asked: list[FetchPartition], magic: int
    ) -> tuple[Answers, list[int]]:
        """The answers with converted records, and the offset to read on from in each partition."""
        done: Answers = []
        next_offsets = []
        for data, one in zip(answers, asked, strict=True):
            next_offset = one.fetch_offset
            if data.records:
                try:
                    converted = await self._convert(data.records, one, magic)
                    for base_offset, reason in converted.unreadable:
                        self._unreadable.report(one.topic_partition, base_offset, reason)
                    next_offset = converted.next_offset
                    data.records = converted.records
                    one.counters.fetch_conversions += converted.record_count
                except KafkaError as error:
                    data = refusal_entry(one, error.code)
            done.append(data)
            next_offsets.append(next_offset)
        return done, next_offsets

    async def _convert(self, records: Piece, asked: FetchPartition, magic: int) -> DownConverted:
        from kbroker.record.conversion import down_convert, has_compressed  # with the first client

        size = len(records)
        if size <= _AT_ONCE_BYTES_MAX:
            data = _in_memory(records)
            if not has_compressed(data):
                return down_convert(data, magic, asked.fetch_offset, size)
        return await self._work.run_read(
            lambda: _in_memory(records),
            lambda data, pace: down_convert(data, magic, asked.fetch_offset, size, pace),
        )


def _in_memory(records: Piece) -> bytes | bytearray | memoryview:
    if isinstance(records, bytes | bytearray | memoryview):
        return records
    try:
        return records.read()
    except StorageError as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
