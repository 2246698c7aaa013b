"""Readers of a simulated cluster that wait for the end of transactions (read_committed)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kbroker.model import TopicPartition
from kbroker.record.record_batch import read_control, read_header, records
from tests.faults.cluster_process import BrokerProcess
from tests.faults.replication_clients import ClientMachine
from tests.faults.replication_consumers import READ_COMMITTED, Consumer
from tests.faults.transaction_ledger import TransactionLedger

_HEADER_BYTES = 61


class CommittedReader(Consumer):
    """Reads one partition; `read` are the records that it was shown, by offset."""

    isolation_level = READ_COMMITTED
    wait_ms = 1_000

    def __init__(self, machine: ClientMachine, number: int, partition: TopicPartition) -> None:
        super().__init__(machine, number, partition)
        assert isinstance(machine.ledger, TransactionLedger)
        self.read: dict[int, bytes] = {}
        self._transactions = machine.ledger
        self._purpose = f"committed reader {number}"

    def _note(self, data: Any, process: BrokerProcess) -> None:
        """A broker that has started does not know, as Kafka's, which of the markers that it has wait
        for replicas. Where one of these is cut off, its transaction is open again.
        """
        super()._note(data, process)
        cuts = self._cuts(process)
        if cuts == self._cuts_before:
            observer = (process.number, f"{self._purpose}, last stable offset after {cuts} cuts")
            self._ledger.watermark(self.partition, observer, data.last_stable_offset)

    def _read(self, data: Any, target: int) -> None:
        """Take what is committed, and step over the rest."""
        aborted = [
            (each.producer_id, each.first_offset) for each in data.aborted_transactions or ()
        ]
        for offset, value in committed_records(bytes(data.records or b""), aborted):
            if offset < self.position:
                continue
            self._check(offset, data.last_stable_offset, target)
            self.position = offset + 1
            if value is not None:
                self._transactions.read_committed(self.partition, offset, value)
                self._ledger.seen(self.partition, offset, value, f"read from {target}")
                self.read[offset] = value


def committed_records(
    content: bytes, aborted: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, bytes | None]]:
    """Offsets and values of what a fetch brought, as clients of Kafka read it: None for records of
    aborted transactions and for markers. `aborted` are (producer id, first offset).
    """
    waiting = sorted(aborted, key=lambda each: each[1])
    skipped: set[int] = set()
    at = 0
    while at + _HEADER_BYTES <= len(content):
        header = read_header(content, at)
        if at + header.size_bytes > len(content):
            return
        while waiting and waiting[0][1] <= header.last_offset:
            skipped.add(waiting.pop(0)[0])
        is_aborted = header.is_transactional and header.producer_id in skipped
        for record in records(content, at):
            if header.is_control:
                control = read_control(record)
                if control is not None and not control.is_commit:
                    skipped.discard(header.producer_id)
            yield record.offset, None if is_aborted or header.is_control else record.value
        at += header.size_bytes
