"""Facts in the logs of Kafka's own topics, read before any coordinator runs: producer ids of
transactions, and over how many partitions groups and transactional ids are spread.

Law: read only, because nothing may change before the operator has asked for the adoption. Keys of
both topics begin with an int16 version and the id, an int16 length and text, in every version;
transaction values with an int16 version and the producer id. Damage is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from struct import Struct
from struct import error as struct_error

from kbroker.errors import KafkaError
from kbroker.inspection.partition_files import sort_files
from kbroker.inspection.segment_audit import opened_audit
from kbroker.java_hash import java_hash
from kbroker.log.disk.file_system import FileSystem
from kbroker.log.disk.format import MAX_OFFSET, log_file
from kbroker.record.default_record import Record
from kbroker.record.readable_records import readable_records
from kbroker.record.record_batch import BatchHeader

USUAL_PARTITIONS = 50  # Kafka's default for both topics
_MOST_PARTITIONS = 10_000
_RECORDS_LOOKED_AT = 1_000
_KEY = Struct(">hh")
_TRANSACTION_VALUE = Struct(">hq")


def producer_ids(file_system: FileSystem, directory: str) -> Iterator[int]:
    """Producer ids in a partition of `__transaction_state`. Raises StorageError."""
    for record in _records(file_system, directory):
        try:
            _, producer_id = _TRANSACTION_VALUE.unpack_from(record.value or b"")
        except struct_error:
            continue  # a tombstone
        yield int(producer_id)


def hashed_ids(file_system: FileSystem, directory: str) -> set[str]:
    """Ids of groups or transactions that are kept in a partition, from its first records.

    Raises StorageError.
    """
    found = set()
    for record in islice(_records(file_system, directory), _RECORDS_LOOKED_AT):
        try:
            _, length = _KEY.unpack_from(record.key or b"")
        except struct_error:
            continue
        found.add((record.key or b"")[_KEY.size : _KEY.size + length].decode(errors="replace"))
    return found


def likely_partition_count(ids: Mapping[int, Iterable[str]]) -> int:
    """Return over how many partitions these ids by partition are spread, as far as they show.

    If partitions are missing, Kafka's default is more likely than any other number that the ids
    allow; if none is, the highest partition is the last one unless the ids contradict it.
    """
    places = [(partition, abs(java_hash(id_))) for partition, held in ids.items() for id_ in held]
    at_least = max(ids, default=-1) + 1
    likely = [at_least, USUAL_PARTITIONS]
    if len(ids) < at_least:
        likely.reverse()
    for count in (*likely, *range(at_least, _MOST_PARTITIONS)):
        if count >= at_least and all(hash_ % count == partition for partition, hash_ in places):
            return int(count)
    return at_least


def _records(file_system: FileSystem, directory: str) -> Iterator[Record]:
    for base_offset in sort_files(file_system.list(directory)).base_offsets:
        path = log_file(directory, base_offset)
        with opened_audit(file_system, path, MAX_OFFSET) as (audit, file):
            for position, header in audit.sound_headers(base_offset):
                if not header.is_control:
                    yield from _records_of(header, file.pread(header.size_bytes, position))


def _records_of(header: BatchHeader, batch: bytes) -> Iterator[Record]:
    try:
        for record in readable_records(header, batch):
            if isinstance(record, Record):
                yield record
    except KafkaError:
        return  # it cannot be unpacked
