"""Programs of a simulated cluster that read a partition, write of each record a copy, and commit
their offset, all in transactions: each record is copied once, whatever happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from kbroker.coordinator.runtime.coordinator_finder import CoordinatorType
from kbroker.coordinator.transaction.producer import Producer
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from kbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.faults.replication_clients import BACKOFF_S, RETRIABLE, ClientMachine
from tests.faults.replication_consumers import READ_COMMITTED
from tests.faults.transaction_clients import (
    AbortError,
    CoordinatorLink,
    GoneError,
    Manner,
    TransactionalClient,
)
from tests.faults.transaction_ledger import Txn
from tests.faults.transaction_readers import committed_records

FETCH_VERSION = 11
FETCH_WAIT_MS = 1_000
READ_PATIENCE_S = 2.0


class Copier(TransactionalClient):
    """Copies `source` to its partitions, for a group of its own that needs no members."""

    def __init__(
        self,
        machine: ClientMachine,
        transactional_id: str,
        number: int,
        partitions: Sequence[TopicPartition],
        manner: Manner,
        *,
        source: TopicPartition,
    ) -> None:
        super().__init__(machine, transactional_id, number, partitions, manner)
        self.group = group_of(transactional_id)
        self._source = source
        self._groups = CoordinatorLink(
            machine, f"{self.name} group", CoordinatorType.GROUP, self.group
        )
        self._position: int | None = None
        self._read: list[tuple[int, bytes]] = []

    def __repr__(self) -> str:
        return f"copier {self.name} of {self._source}"

    async def _identify(self, expected: Producer) -> None:
        await super()._identify(expected)
        self._position = None

    # ---- reading

    async def _prepare(self) -> None:
        """Know where to go on, and read something."""
        if self._position is None:
            self._position = max(await self._committed_offset(is_stable=True), 0)
        began_s, must_look = self._machine.loop.time(), False
        self._read = []
        while not self._read and self._machine.loop.time() - began_s < READ_PATIENCE_S:
            try:
                must_look = await self._fetch(anew=must_look)
            except OSError:
                must_look = True
            if must_look:
                await asyncio.sleep(BACKOFF_S)

    async def _committed_offset(self, *, is_stable: bool) -> int:
        topic = OffsetFetchRequest.OffsetFetchRequestTopics(
            name=self._source.topic, partition_indexes=[self._source.partition]
        )
        wanted = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=self.group, topics=[topic])
        request = OffsetFetchRequest(groups=[wanted], require_stable=is_stable)
        while True:
            code, answer = await self._groups.ask(request, 8, _code_of_offset)
            if code is not ErrorCode.NONE:
                raise self._unexpected(code)
            if self._ledger.coordinates_group(self.group, self._groups.node):
                break
            self._groups.node = None
            await asyncio.sleep(BACKOFF_S)
        offset = int(answer.groups[0].topics[0].partitions[0].committed_offset)
        self._say(f"group has {offset}")
        self._ledger.offset_told(self.group, offset)
        return offset

    async def _fetch(self, *, anew: bool) -> bool:
        """Read once; True where it is to be looked up again who leads. OSError."""
        assert self._position is not None
        place = await self._machine.place(self._source, anew=anew)
        if place is None:
            return True
        asked = FetchRequest.FetchPartition(
            partition=self._source.partition,
            current_leader_epoch=place.leader_epoch,
            fetch_offset=self._position,
            partition_max_bytes=self._random.choice((100, 500)),
        )
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=READ_COMMITTED,
            topics=[FetchRequest.FetchTopic(topic=self._source.topic, partitions=[asked])],
        )
        answer = await self._machine.ask(
            place.leader, request, purpose=f"{self.name} source", version=FETCH_VERSION
        )
        data = answer.responses[0].partitions[0]
        code = ErrorCode(data.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            if self._ledger.is_excused(self._source):
                raise GoneError
            if not self._ledger.leads(self._source, place.leader):
                return True  # its log ends earlier, and it has not heard that it was replaced
        if code not in RETRIABLE | {ErrorCode.NONE}:
            raise self._unexpected(code)
        if code is ErrorCode.NONE:
            self._take(data)
        return code is not ErrorCode.NONE

    def _take(self, data: Any) -> None:
        aborted = [
            (each.producer_id, each.first_offset) for each in data.aborted_transactions or ()
        ]
        for offset, value in committed_records(bytes(data.records or b""), aborted):
            if self._position is None or offset < self._position:
                continue
            self._position = offset + 1
            if value is not None:
                self._ledger.read_committed(self._source, offset, value)
                self._read.append((offset, value))

    # ---- one transaction

    async def _work(self, txn: Txn) -> bool:
        if not self._read:
            return False
        assert self._position is not None
        try:
            await self._copy(txn, self._position)
        except AbortError:
            self._position = None
            raise
        return True

    async def _copy(self, txn: Txn, position: int) -> None:
        partitions = self._random.sample(
            self._partitions, self._random.randrange(1, len(self._partitions) + 1)
        )
        offsets_first = self._random.random() < 0.3
        if offsets_first:
            await self._commit_offset(txn, position)
        await self._add_partitions(partitions)
        for n, partition in enumerate(partitions):
            part = self._read[n :: len(partitions)]
            values = [self._value(b"") for _ in part]
            for value, (offset, _) in zip(values, part, strict=True):
                self._ledger.sources[value] = (self._source, offset)
            if values:
                await self._produce(txn, partition, values)
            await self._pause()
        if not offsets_first:
            await self._commit_offset(txn, position)
        if self._random.random() < 0.3:
            await self._committed_offset(is_stable=False)

    async def _commit_offset(self, txn: Txn, position: int) -> None:
        if not self._manner.has_epochs:
            await self._add_group()
        asked = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=self._source.partition, committed_offset=position
        )
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
            name=self._source.topic, partitions=[asked]
        )
        commit = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=self.group,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            topics=[topic],
        )
        self._ledger.offset_on_its_way(txn, self.group, position)
        lost = self._groups.lost
        version = 5 if self._manner.has_epochs else self._version
        code, _ = await self._groups.ask(commit, version, _code_of_commit)
        self._is_tainted |= self._groups.lost > lost
        self._say(f"offset {position} in {txn}: {code.name}")
        if code is not ErrorCode.NONE:
            self._refused(self._source, code)

    async def _add_group(self) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            group_id=self.group,
        )
        code, _ = await self._coordinator.ask(
            request, self._version, lambda found: int(found.error_code)
        )
        self._check_part(code)

    async def _end(self, txn: Txn, *, is_commit: bool) -> None:
        if not is_commit:
            self._position = None
        await super()._end(txn, is_commit=is_commit)
        if is_commit:
            self._ledger.of_transactions.copied += len(self._read)


def group_of(transactional_id: str) -> str:
    """The group whose offsets a copier commits."""
    return f"group of {transactional_id}"


def _code_of_offset(answer: Any) -> int:
    found = answer.groups[0]
    if found.error_code:
        return int(found.error_code)
    return int(found.topics[0].partitions[0].error_code)


def _code_of_commit(answer: Any) -> int:
    return int(answer.topics[0].partitions[0].error_code)
