"""The record batch of message format 2 (KIP-98): header, records, markers; read, checked, built.

     0 int64  base offset            21 int16 attributes           43 int64 producer id
     8 int32  length after this      23 int32 last offset delta    51 int16 producer epoch
    12 int32  leader epoch           27 int64 base timestamp       53 int32 base sequence
    16 int8   magic (2)              35 int64 max timestamp        57 int32 record count
    17 uint32 CRC-32C

The CRC covers everything from the attributes on: base offset and leader epoch can be written in
place. Attributes: bits 0-2 compression, 3 timestamp type, 4 transactional, 5 control, 6 delete
horizon (KIP-534).

Law: any bytes give a header or records, or a KafkaError, and nothing is allocated for a claimed
size: the bytes come from clients and from damaged files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple, NoReturn

from fastcrc.crc32 import iscsi as crc32c

from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    new_tuple,
)
from kbroker.record.compression import (
    COMPRESSION_MASK,
    DEFAULT_MAX_BYTES,
    NONE,
    compress,
    compress_pieces,
    decompress,
    plain_pieces,
)
from kbroker.record.default_record import (
    Bytes,
    invalid,
    write_record,
)
from kbroker.record.default_record import Record as Record  # noqa: PLC0414 - this module's word too
from kbroker.record.record_stream import Pace, RecordStream, paced

HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12  # base offset and length: what `batch_length` does not count
MAGIC: Final = 2
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21  # the CRC covers the batch from here on
MAX_TIMESTAMP_POSITION: Final = 35

TIMESTAMP_TYPE_BIT: Final = 0x08  # set: LogAppendTime
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40
_MEANT_BITS: Final = 0x7F

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

_MIN_LEGACY_LENGTH: Final = 14  # the shortest message of format 0, after offset and length
_LENGTH = Struct(">i")
_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_TIMESTAMP = Struct(">q")
_unpack_header = HEADER.unpack_from


class BatchHeader(NamedTuple):
    """The 61 bytes in front of a batch's records. Timestamps in Unix ms."""

    base_offset: int
    batch_length: int  # bytes after this field
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int  # of the first record; the delete horizon if that bit is set
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        """Offset of the last record, whether or not compaction has removed it."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch, header included."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def compression(self) -> int:
        """Codec id, 0 to 7 (5 to 7 name no codec)."""
        return self.attributes & COMPRESSION_MASK

    @property
    def timestamp_type(self) -> int:
        return (self.attributes & TIMESTAMP_TYPE_BIT) >> 3

    @property
    def stamp(self) -> int | None:
        """The one time of all records in a batch with LogAppendTime; None if each has its own."""
        return self.max_timestamp if self.timestamp_type == LOG_APPEND_TIME else None

    @property
    def is_transactional(self) -> bool:
        """Part of a transaction: read_committed readers wait for its end."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Holds a transaction marker, which consumers do not see."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers of this batch may go (KIP-534); None if it is not set."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; sequences wrap after 2^31 - 1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFF_FFFF


class ControlRecord(NamedTuple):
    """The end of a transaction, as a marker in the log states it."""

    is_commit: bool
    coordinator_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class BatchOptions:
    """The header of a built batch, as far as its records do not determine it."""

    flags: int = 0  # attribute bits 3 to 6
    compression: int = NONE
    level: int | None = None  # of the codec; None: its default
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    base_timestamp: int | None = None  # None: that of the first record
    max_timestamp: int | None = None  # None: the largest of the records
    last_offset: int | None = None  # None: that of the last record


_DEFAULT_OPTIONS: Final = BatchOptions()


def read_header(buffer: Bytes, position: int = 0) -> BatchHeader:
    """The header of the format 2 batch at `position`; the CRC is not checked here. KafkaError:
    CORRUPT_MESSAGE for an impossible length or magic, INVALID_RECORD if the bytes end before the
    header does or hold an older format.
    """
    try:
        header: BatchHeader = new_tuple(BatchHeader, _unpack_header(buffer, position))
    except struct_error:
        _refuse_short(buffer, position)
    if header.magic != MAGIC or header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
        _refuse_header(header)
    return header


def assign_offset(
    buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int
) -> None:
    """Write base offset and leader epoch into the batch; the CRC does not cover them."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + LOG_OVERHEAD, leader_epoch)


def assign_log_append_time(
    header: BatchHeader, buffer: bytearray | memoryview, position: int, now_ms: int
) -> None:
    """Stamp the batch with LogAppendTime: attribute bit, max timestamp, new CRC.

    Records stay as they are.
    """
    _assign_time(header, buffer, position, TIMESTAMP_TYPE_BIT, now_ms)


def assign_max_timestamp(
    header: BatchHeader, buffer: bytearray | memoryview, position: int, max_timestamp: int
) -> None:
    """Correct the max timestamp of a CreateTime batch, with its CRC."""
    _assign_time(header, buffer, position, 0, max_timestamp)


def _assign_time(
    header: BatchHeader, buffer: bytearray | memoryview, position: int, time_bit: int, time_ms: int
) -> None:
    """Write the time and, as Kafka does, the attributes without the bits that mean nothing."""
    attributes = header.attributes & _MEANT_BITS & ~TIMESTAMP_TYPE_BIT | time_bit
    _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_POSITION, attributes)
    _TIMESTAMP.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, time_ms)
    _write_crc(buffer, position, header.size_bytes)


def payload(
    header: BatchHeader,
    buffer: Bytes,
    position: int = 0,
    max_decompressed_bytes: int = DEFAULT_MAX_BYTES,
) -> memoryview:
    """The batch's records, uncompressed. Raises KafkaError as `compression.decompress` does, and
    INVALID_RECORD if the batch is cut short.
    """
    compressed = _stored_records(header, buffer, position)
    if not header.attributes & COMPRESSION_MASK:
        return compressed
    return memoryview(decompress(header.compression, compressed, max_decompressed_bytes))


def plain_records(
    header: BatchHeader, buffer: Bytes, max_decompressed_bytes: int = DEFAULT_MAX_BYTES
) -> bytes | bytearray:
    """The uncompressed records of the batch at the start, for readers that go byte by byte: a view
    is slower. Unpacked bytes are not copied again.
    """
    plain = payload(header, buffer, 0, max_decompressed_bytes)
    whole = plain.obj
    return whole if header.compression and isinstance(whole, bytes | bytearray) else bytes(plain)


def record_stream(
    header: BatchHeader, buffer: Bytes, position: int = 0, pace: Pace | None = None
) -> RecordStream:
    """The records, unpacked as they are read, however large. KafkaError as `record_pieces`."""
    return RecordStream(record_pieces(header, buffer, position, pace))


def record_pieces(
    header: BatchHeader, buffer: Bytes, position: int = 0, pace: Pace | None = None
) -> Iterator[bytes | bytearray]:
    """The bytes of the batch's records, in the pieces in which they are unpacked. Raises KafkaError
    as `compression.plain_pieces` does, and INVALID_RECORD if the batch is cut short.
    """
    codec = header.attributes & COMPRESSION_MASK
    return paced(plain_pieces(codec, _stored_records(header, buffer, position)), pace)


def _stored_records(header: BatchHeader, buffer: Bytes, position: int) -> memoryview:
    end = position + header.size_bytes
    if end > len(buffer):
        invalid(f"batch of {header.size_bytes} bytes, {len(buffer) - position} given")
    return memoryview(buffer)[position + HEADER_SIZE : end]


def records(buffer: Bytes, position: int = 0, pace: Pace | None = None) -> Iterator[Record]:
    """The records of the batch, with absolute offsets; INVALID_RECORD if they are broken.

    They are unpacked as they are read: the first ones come before the last ones are seen.
    """
    header = read_header(buffer, position)
    stream = record_stream(header, buffer, position, pace)
    stamped = header.stamp
    for _ in range(header.record_count):
        record = stream.read(header.base_offset, header.base_timestamp)
        yield record if stamped is None else record._replace(timestamp=stamped)
    stream.check_end()


def build(
    batch_records: Iterable[Record],
    *,
    base_offset: int = 0,
    options: BatchOptions = _DEFAULT_OPTIONS,
) -> bytes:
    """A batch of these records (absolute, rising offsets); without any, one compacted away."""
    entries = list(batch_records)
    max_timestamp = options.max_timestamp
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in entries), default=NO_TIMESTAMP)
    base_timestamp = options.base_timestamp
    if base_timestamp is None:
        base_timestamp = base_time(entries[0].timestamp, max_timestamp) if entries else NO_TIMESTAMP
    last_offset = options.last_offset
    if last_offset is None:
        last_offset = entries[-1].offset if entries else base_offset
    body = bytearray()
    for record in entries:
        write_record(body, record, base_offset, base_timestamp)
    header = unsealed_header(
        options,
        base_offset=base_offset,
        last_offset=last_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        record_count=len(entries),
    )
    return join_batch(header, body, options.level)


def base_time(first_ms: int, newest_ms: int) -> int:
    """The base of a batch's times: the first record's, unless one record has no time and another
    the last possible one, which is further away than 63 bits.
    """
    return first_ms if newest_ms - first_ms < 2**63 else NO_TIMESTAMP + 1


def unsealed_header(
    options: BatchOptions,
    *,
    base_offset: int,
    last_offset: int,
    base_timestamp: int,
    max_timestamp: int,
    record_count: int,
) -> BatchHeader:
    """The header of a new batch, except length and checksum, which `join_batch` fills in. These
    times and this last offset replace those in the options.
    """
    return BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=options.partition_leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=options.flags | options.compression,
        last_offset_delta=last_offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=options.producer_id,
        producer_epoch=options.producer_epoch,
        base_sequence=options.base_sequence,
        record_count=record_count,
    )


def build_marker(
    control: ControlRecord, timestamp_ms: int, *, base_offset: int = 0, options: BatchOptions
) -> bytes:
    """A transaction marker: a control record in a control batch of the producer in `options`."""
    record = Record(base_offset, timestamp_ms, *marker_record(control))
    return build([record], base_offset=base_offset, options=marker_options(options))


def marker_record(control: ControlRecord) -> tuple[bytes, bytes]:
    """Key and value of the record in a transaction marker."""
    return (
        _CONTROL_KEY.pack(0, int(control.is_commit)),
        _CONTROL_VALUE.pack(0, control.coordinator_epoch),
    )


def marker_options(options: BatchOptions) -> BatchOptions:
    """The header of a transaction marker of the producer in `options`."""
    return BatchOptions(
        flags=TRANSACTIONAL_BIT | CONTROL_BIT,
        partition_leader_epoch=options.partition_leader_epoch,
        producer_id=options.producer_id,
        producer_epoch=options.producer_epoch,
    )


def read_control(record: Record) -> ControlRecord | None:
    """The marker in a record of a control batch; None for a kind this version does not know."""
    try:
        _, kind = _CONTROL_KEY.unpack_from(record.key or b"")
        if kind not in (_ABORT, _COMMIT):
            return None
        _, coordinator_epoch = _CONTROL_VALUE.unpack_from(record.value or b"")
    except struct_error:
        invalid("control record cut short")
    return ControlRecord(kind == _COMMIT, coordinator_epoch)


_CONTROL_KEY = Struct(">hh")  # version, kind
_CONTROL_VALUE = Struct(">hi")  # version, coordinator epoch
_ABORT = 0
_COMMIT = 1


def join_batch(header: BatchHeader, body: Bytes, level: int | None = None) -> bytes:
    """Header and records as one batch: compression, length and CRC are filled in."""
    codec = header.compression
    return _sealed(header, compress(codec, body, level) if codec else body)


def join_pieces(header: BatchHeader, body: Iterable[Bytes], level: int | None = None) -> bytes:
    """Join header and records into a batch, without holding all uncompressed records."""
    return _sealed(header, compress_pieces(header.compression, body, level))


def _sealed(header: BatchHeader, stored: Bytes) -> bytes:
    batch = bytearray(HEADER_SIZE)
    batch += stored
    HEADER.pack_into(batch, 0, *header._replace(batch_length=len(batch) - LOG_OVERHEAD))
    _write_crc(batch, 0, len(batch))
    return bytes(batch)


def readdressed(header: BatchHeader, buffer: Bytes, options: BatchOptions) -> bytearray:
    """The batch at the start of `buffer` as the producer in `options` sends it to another log:
    records, times and compression stay.
    """
    batch = bytearray(buffer[: header.size_bytes])
    addressed = header._replace(
        base_offset=0,
        partition_leader_epoch=options.partition_leader_epoch,
        attributes=options.flags | header.compression,
        producer_id=options.producer_id,
        producer_epoch=options.producer_epoch,
        base_sequence=options.base_sequence,
    )
    HEADER.pack_into(batch, 0, *addressed)
    _write_crc(batch, 0, len(batch))
    return batch


def _write_crc(buffer: bytearray | memoryview, position: int, size: int) -> None:
    covered = memoryview(buffer)[position + ATTRIBUTES_POSITION : position + size]
    _CRC.pack_into(buffer, position + CRC_POSITION, crc32c(covered))


def _refuse_short(buffer: Bytes, position: int) -> NoReturn:
    """Refuse as Kafka does: an impossible length is corrupt, a possible one a cut batch."""
    left = len(buffer) - position
    if left >= LOG_OVERHEAD and _LENGTH.unpack_from(buffer, position + 8)[0] < _MIN_LEGACY_LENGTH:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "record batch with an impossible length")
    invalid(f"no whole record batch in {left} bytes")


def _refuse_header(header: BatchHeader) -> NoReturn:
    if header.batch_length >= _MIN_LEGACY_LENGTH and header.magic in (0, 1):
        invalid(f"message format {header.magic}, expected {MAGIC}")
    raise KafkaError(
        ErrorCode.CORRUPT_MESSAGE,
        f"record batch with magic {header.magic} and length {header.batch_length}",
    )
