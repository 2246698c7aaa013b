"""A data directory with everything a log can hold, and what a client has to read from it.

All codecs and message formats, headers and nulls, idempotent and transactional producers, several
leader epochs, rolled segments, DeleteRecords, LogAppendTime, preallocation, gaps between offsets,
logs after cleaning, a record near the size limit, committed offsets of a group.
"""

from __future__ import annotations

from functools import reduce

from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.coordinator.group.records import offset_commit_key, offset_commit_value
from kbroker.coordinator.runtime.batch_append import OFFSET_BATCH
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.model import TopicPartition
from kbroker.pipeline.restoring.row_batches import BatchForm, batch_without_records, row_batches
from kbroker.record.compression import CODEC_IDS
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.record_batch import TRANSACTIONAL_BIT, BatchOptions, Record, build, records
from tests.fakes.archives.arrow_records import record, unplaced_batch
from tests.integration.directory_writer import CREATE_TIME, DirectoryWriter

GROUP = "g-written"
COMMITTED = 7
OFFSETS_PARTITIONS = 3
BIG_BYTES = 1_000_000


def write_everything(writer: DirectoryWriter) -> None:
    """Fill a data directory; see the module."""
    for fill in (
        _write_codecs, _write_old_formats, _write_odd, _write_idempotent, _write_transactions,
        _write_epochs, _write_deleted, _write_gaps, _write_settings, _write_compacted, _write_offsets,
    ):  # fmt: skip
        fill(writer)


def _write_codecs(writer: DirectoryWriter) -> None:
    for name, codec in CODEC_IDS.items():
        if name != "uncompressed":
            for number in range(20):
                writer.append(f"codec-{name}", writer.records(6, str(number)), compression=codec)


def _write_old_formats(writer: DirectoryWriter) -> None:
    for magic in (0, 1):
        for name in ("none", "gzip", "snappy", "lz4"):
            topic = f"v{magic}-{name}"
            for number in range(12):
                _append_old(writer, topic, number, magic, CODEC_IDS[name])
    for number, magic in enumerate((0, 0, 1, 1)):  # a topic that was upgraded twice
        _append_old(writer, "v0-v1-v2", number, magic, CODEC_IDS["none" if number % 2 else "gzip"])
    writer.append("v0-v1-v2", writer.records(6, "new"))


def _append_old(
    writer: DirectoryWriter, topic: str, number: int, magic: int, compression: int
) -> None:
    records = writer.records(5, f"{topic} {number}", writer.log(topic).log_end_offset)
    records = [record._replace(headers=()) for record in records]
    if not topic.startswith("compacted"):
        records[1] = records[1]._replace(key=None)
    records[2] = records[2]._replace(value=None, key=b"")
    writer.append_at(topic, records, build_legacy(records, magic, compression), magic)


def _write_odd(writer: DirectoryWriter) -> None:
    at = writer.clock.ms
    pairs = [
        (None, None),
        (b"", b""),
        (None, b"v"),
        (b"k", None),
        ("ключ".encode(), bytes(range(256))),
    ]
    records = [Record(index, at, key, value) for index, (key, value) in enumerate(pairs)]
    headers = (("", b"x"), ("twice", b"1"), ("twice", b"2"), ("имя", None), ("bin", b"\xff\x00"))
    writer.append("odd", [*records, Record(len(records), at, b"h", b"v", headers)])
    writer.append("odd", [Record(0, at, b"k", b"larger than a segment, nearly" * 60)])
    writer.append("big", [Record(0, at, b"k", b"B" * BIG_BYTES)])
    writer.append("big", [Record(0, at, b"k", bytes(BIG_BYTES))], compression=CODEC_IDS["zstd"])
    writer.log("empty")
    writer.append("two-partitions", writer.records(3), partition=0)
    writer.append("two-partitions", writer.records(5), partition=1)


def _write_idempotent(writer: DirectoryWriter) -> None:
    for sequence in range(0, 40, 2):
        for producer_id in (11, 12, 1000):
            writer.append(
                "idempotent",
                writer.records(2),
                producer_id=producer_id,
                producer_epoch=producer_id % 3,
                base_sequence=sequence,
            )


def _write_transactions(writer: DirectoryWriter) -> None:
    sequences = dict.fromkeys(range(21, 27), 0)

    def produce(producer_id: int) -> None:
        writer.append(
            "txn",
            writer.records(3),
            flags=TRANSACTIONAL_BIT,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequences[producer_id],
        )
        sequences[producer_id] += 3

    for number in range(12):
        one, other = 21 + number % 4, 25
        produce(one)
        if number % 3 == 0:
            produce(other)
        writer.append("txn", writer.records(1, "plain"))
        produce(one)
        writer.end_transaction("txn", one, commit=number % 2 == 0)
        if number % 3 == 0:
            writer.end_transaction("txn", other, commit=False)
    produce(26)  # stays open: the last stable offset is before it
    writer.append("txn", writer.records(2, "after"))


def _write_epochs(writer: DirectoryWriter) -> None:
    for number in range(24):
        writer.append("epochs", writer.records(3), epoch=(0, 1, 4, 5)[number // 6])


def _write_deleted(writer: DirectoryWriter) -> None:
    for topic, up_to in (("records-deleted", 37), ("all-deleted", 60)):
        for _ in range(20):
            writer.append(topic, writer.records(3))
        log = writer.log(topic)
        log.maybe_increment_log_start_offset(up_to)
        place = TopicPartition(topic, 0)
        writer.rows[place] = [row for row in writer.rows[place] if row.offset >= up_to]


def _write_gaps(writer: DirectoryWriter) -> None:
    for base in (5, 40, 1_000, 70_000, 3_000_000_000):
        log = writer.log("gaps")
        records = writer.records(4, first_offset=base)[::3]  # with a gap inside, too
        options = BatchOptions(last_offset=base + 9, partition_leader_epoch=0)
        assert log.log_end_offset <= base
        data = build(records, base_offset=base, options=options)
        writer.append_at("gaps", records, data, magic=2)


def _write_settings(writer: DirectoryWriter) -> None:
    for topic in ("append-time", "preallocated", "recode"):
        for _ in range(16):
            writer.append(topic, writer.records(4))


def _write_compacted(writer: DirectoryWriter) -> None:
    for codec in ("none", "zstd"):
        for number in range(24):
            records = writer.records(4, str(number))
            records[3] = records[3]._replace(key=b"once-%d" % number)
            if number % 5 == 0:
                records[1] = records[1]._replace(value=None)
            writer.append(f"compacted-{codec}", records, compression=CODEC_IDS[codec])
        writer.compact(f"compacted-{codec}")
    for number in range(14):
        _append_old(writer, "compacted-v1", number, 1, CODEC_IDS["gzip" if number % 2 else "none"])
    writer.compact("compacted-v1")
    for number in range(20):
        producer_id = 31 + number % 3
        writer.append(
            "compacted-txn",
            writer.records(3, str(number)),
            flags=TRANSACTIONAL_BIT,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=number // 3 * 3,
        )
        writer.end_transaction("compacted-txn", producer_id, commit=number % 4 > 0)
    writer.compact("compacted-txn")
    writer.compact("compacted-none")  # once more, over what is clean already


def write_rows(writer: DirectoryWriter) -> None:
    """Batches made of rows, as an archive that is written back has them: none of them leaves a gap,
    the first one has no record, some reach beyond their last one.
    """
    places = [at for at in range(7, 300) if at % 10 not in (3, 4)]
    rows = unplaced_batch(
        [record(at, timestamp=writer.clock.ms - at % 7, value=b"v%d" % at * 9) for at in places]
    )
    form = BatchForm(most_bytes=600, codec=CODEC_IDS["zstd"])
    batches = [batch_without_records(0, form), *row_batches(rows, form)]
    ends = [*(batch.header.base_offset for batch in batches[1:]), 310]
    for batch, end_offset in zip(batches, ends, strict=True):
        data = batch.up_to(end_offset).built()
        writer.append_at("rows", list(records(data)), data, magic=2)


def _write_offsets(writer: DirectoryWriter) -> None:
    for partition in range(OFFSETS_PARTITIONS):
        writer.log("__consumer_offsets", partition)
    hashed = reduce(lambda number, char: (31 * number + ord(char)) & 0xFFFFFFFF, GROUP, 0)
    partition = (hashed & 0x7FFFFFFF) % OFFSETS_PARTITIONS
    log = writer.log("__consumer_offsets", partition)
    for offset in range(COMMITTED + 1):
        committed = CommittedOffset(offset=offset, commit_timestamp_ms=writer.clock.ms)
        record = Record(
            0,
            writer.clock.ms,
            offset_commit_key(GROUP, "codec-gzip", 0),
            offset_commit_value(committed),
        )
        data = bytearray(build([record], options=OFFSET_BATCH))
        log.append_as_leader(data, 0, writer.clock.ms, origin=AppendOrigin.COORDINATOR)
        log.update_high_watermark(log.log_end_offset)
        writer.note_rows(log, [record], log.log_end_offset - 1, (CREATE_TIME, None))
