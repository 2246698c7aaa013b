"""What replicas of a simulated cluster hold: looked at while it runs, and when it has come to rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kbroker.log.partition.log import Log
from kbroker.model import TopicPartition
from kbroker.record.record_batch import read_header, records
from tests.faults.cluster_checks import batches_in
from tests.faults.cluster_process import BrokerProcess
from tests.faults.replication_consumers import Committer
from tests.faults.replication_ledger import Ledger, shown


def scan(processes: Sequence[BrokerProcess], ledger: Ledger) -> None:
    """Compare what all replicas have below their high watermarks with what was seen before; those
    that a loss of power may have given back what they had cut off, once they are in sync again.
    """
    for process in processes:
        if not process.is_listening or not process.is_alive:
            continue
        for partition in process.replicas.hosted:
            log, name = partition.log, partition.topic_partition
            if process.broker_id in ledger.book(name).tainted and not partition.is_leader:
                continue
            ledger.watermark(name, (process.number, "scan"), log.high_watermark)
            for offset, value in records_in(log, log.high_watermark):
                ledger.counts.scanned += 1
                ledger.seen(name, offset, value, f"on broker {process.broker_id}")


def records_in(
    log: Log, end_offset: int, *, has_markers: bool = True
) -> Iterator[tuple[int, bytes]]:
    """(offset, key and value) of the records below an offset."""
    for base_offset, data in batches_in(log):
        if base_offset >= end_offset:
            return
        if not has_markers and read_header(data).is_control:
            continue
        for record in records(data):
            if record.offset < end_offset:
                yield record.offset, shown(record)


def late_watermarks(processes: Sequence[BrokerProcess], ledger: Ledger) -> Iterator[str]:
    """Leaders that do not know yet that all replicas in sync have what was seen: a new one hears it
    from its followers, and one of them may wait for a second as it asked before there was a leader.
    """
    for process in processes:
        for held in process.replicas.hosted if process.is_listening else ():
            name, highest = held.topic_partition, ledger.book(held.topic_partition).highest
            if held.is_leader and held.log.high_watermark < min(highest, held.log_end_offset):
                yield f"{name}: high watermark {held.log.high_watermark}, {highest} was seen"


def broken_promises(processes: Sequence[BrokerProcess], ledger: Ledger) -> Iterator[str]:
    """List what a cluster at rest lacks of all that clients were told."""
    for name, book in ledger.used_books():
        led = [
            held.log
            for process in processes
            if (held := process.replicas.hosted.find(name)) is not None and held.is_leader
        ]
        if len(led) != 1:
            yield f"{name} is led by {len(led)} brokers"
            continue
        if name.topic not in ledger.shrinking and led[0].log_start_offset:
            yield f"{name} starts at {led[0].log_start_offset}"
        if not ledger.is_excused(name):
            log = led[0]
            held = dict(records_in(log, log.log_end_offset))
            for offset, value in sorted(book.acknowledged.items()):
                if held.get(offset) != value and not _is_deleted(ledger, name, log, offset):
                    yield f"{name} has lost {value!r} at {offset}: {held.get(offset)!r} there"
                    break
            missing = set(book.unplaced) - set(held.values())
            if missing and name.topic not in ledger.shrinking:
                yield f"{name} has lost {sorted(missing)[:3]}"
            if log.high_watermark < book.highest:
                yield f"{name}: high watermark {log.high_watermark}, {book.highest} was seen"
            if not name.topic.startswith("__"):
                data = dict(records_in(log, log.log_end_offset, has_markers=False))
                yield from _disorder(name, data, ledger)


def _is_deleted(ledger: Ledger, name: TopicPartition, log: Log, offset: int) -> bool:
    return offset < log.log_start_offset and name.topic in ledger.shrinking


def _disorder(name: TopicPartition, held: dict[int, bytes], ledger: Ledger) -> Iterator[str]:
    """Each producer's records are there once, in their order."""
    told = set(ledger.books[name].acknowledged.values()) | set(ledger.books[name].unplaced)
    seen: set[bytes] = set()
    last: dict[bytes, int] = {}
    for offset, value in sorted(held.items()):
        if value not in ledger.sent:
            yield f"{name} has {value!r} at {offset}, which nobody sent"
            return
        producer, number, _ = value.split(b":", 2)
        if value in seen:
            if producer in ledger.idempotent:
                yield f"{name} has {value!r} twice, again at {offset}"
            continue
        seen.add(value)
        if value in told and producer in ledger.ordered:
            if int(number) < last.get(producer, -1):
                yield f"{name} has {value!r} at {offset} behind number {last[producer]}"
            last[producer] = int(number)


def forgotten_commits(committers: Sequence[Committer], ledger: Ledger) -> Iterator[str]:
    """Groups that were told of a later offset than they have."""
    internal = {name for name in ledger.excused if name.topic == "__consumer_offsets"}
    for committer in committers:
        for group, told in committer.told.items():
            committed = ledger.commits.get(group, -1)
            if told < committed and not internal:
                yield f"group {group} has {told}, and was told of {committed}"
