"""Faults of data directories that an audit has to find: each function plants one, or says None
where the file it was given to has nothing to injure.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from kbroker.log.disk.format import (
    LOG_SUFFIX,
    OFFSET_INDEX_ENTRY,
    OFFSET_INDEX_SUFFIX,
    PRODUCER_SNAPSHOT_SUFFIX,
    TIME_INDEX_ENTRY,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from kbroker.record.record_batch import CREATE_TIME, MAGIC
from tests.faults.audit_case import (
    NOW_MS,
    Batch,
    Case,
    Planted,
    batches_of,
    beside,
    place_of,
    with_crc,
    with_fields,
)

Fault = Callable[[Case, random.Random], Planted | None]

_TORN = ("batch-torn", "segment-garbage", "segment-zeros")
_EPOCHS = ("epochs-wrong", "epochs-missing")


def _picked(case: Case, chance: random.Random) -> tuple[Path, list[Batch], int]:
    segment = chance.choice(case.segments())
    batches = batches_of(segment.read_bytes())
    return segment, batches, chance.randrange(len(batches))


def _short(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def flipped_bit_in_log(case: Case, chance: random.Random) -> Planted | None:
    segment, batches, number = _picked(case, chance)
    batch = batches[number]
    data = bytearray(segment.read_bytes())
    at = batch.position + chance.randrange(len(batch.data))
    data[at] ^= 1 << chance.randrange(8)
    case.write(segment, bytes(data))
    if batch.header.magic == MAGIC and 12 <= at - batch.position < 16:
        path = f"{segment.parent.name}/leader-epoch-checkpoint"
        return Planted(_EPOCHS, path, place_of(segment).topic)
    following = batch.position + len(batch.data)
    return Planted(
        (*_TORN, "batch-crc", "batch-order", "gap", "segment-missing", "batch-before-segment",
         "batch-beyond-segment", "batch-header"),
        segment.parent.name, place_of(segment).topic, positions=(batch.position, following, 0),
    )  # fmt: skip


def cut_tail(case: Case, chance: random.Random) -> Planted | None:
    """Of a last segment, somewhere: within a batch, or between two."""
    segment = chance.choice(case.segments())
    if segment != sorted(segment.parent.glob("*.log"))[-1]:
        return None
    data = segment.read_bytes()
    at = chance.randrange(len(data))
    if chance.random() < 0.3:
        at = chance.choice(batches_of(data)).position
    case.write(segment, data[:at])
    codes = (*_TORN, "recovery-point", "high-watermark", "log-behind-archive")
    return Planted(codes, segment.parent.name, place_of(segment).topic)


def cut_tail_with_all_traces(case: Case, chance: random.Random) -> Planted | None:
    """The last batches gone, and all that a directory itself says of them: the archive knows."""
    segment = chance.choice(case.segments())
    if segment != sorted(segment.parent.glob("*.log"))[-1] or _is_archived_in_part(segment):
        return None
    data = segment.read_bytes()
    batch = chance.choice(batches_of(data))
    if batch.header.is_control or batch.header.magic < MAGIC:
        return None
    case.write(segment, data[: batch.position])
    for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
        if beside(segment, suffix).exists():
            case.remove(beside(segment, suffix))
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        _lower(case, case.directory / name, segment.parent.name, batch.header.base_offset)
    for snapshot in segment.parent.glob(f"*{PRODUCER_SNAPSHOT_SUFFIX}"):
        if int(snapshot.stem) > batch.header.base_offset:
            case.remove(snapshot)
    offsets = range(batch.header.base_offset, batch.header.last_offset + 1)
    return Planted(
        ("log-behind-archive",), segment.parent.name, place_of(segment).topic, offsets=offsets
    )


def _is_archived_in_part(segment: Path) -> bool:
    """Of logs with transactions the archive may end before the log does, and of those whose first
    records were deleted it has none of them.
    """
    topic = place_of(segment).topic
    return topic in {"txn", "compacted-txn"} or topic.endswith("-deleted")


def _lower(case: Case, path: Path, name: str, offset: int) -> None:
    topic, _, partition = name.rpartition("-")
    lines = path.read_text().splitlines()
    changed = [
        f"{topic} {partition} {offset}" if line.startswith(f"{topic} {partition} ") else line
        for line in lines
    ]
    case.write(path, ("\n".join(changed) + "\n").encode())


def missing_segment(case: Case, chance: random.Random) -> Planted | None:
    """From the middle, with its indexes and snapshot."""
    segment = chance.choice(case.segments(least=3))
    files = sorted(segment.parent.glob("*.log"))
    number = files.index(segment)
    if number in (0, len(files) - 1) or "compacted" in segment.parent.name:
        return None
    for suffix in (
        LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX,
        PRODUCER_SNAPSHOT_SUFFIX,
    ):  # fmt: skip
        if beside(segment, suffix).exists():
            case.remove(beside(segment, suffix))
    first = int(segment.stem)
    return Planted(
        ("segment-missing",), segment.parent.name, place_of(segment).topic,
        offsets=range(first, first + 1),
    )  # fmt: skip


def lost_batch(case: Case, chance: random.Random) -> Planted | None:
    segment, batches, number = _picked(case, chance)
    if number in (0, len(batches) - 1) or "compacted" in segment.parent.name:
        return None
    gone = batches[number]
    if any(batch.header.magic < MAGIC for batch in batches):
        return None
    case.write(segment, b"".join(b.data for b in batches if b is not gone))
    offsets = range(gone.header.base_offset, gone.header.last_offset + 1)
    return Planted(
        ("gap",), _short(segment), place_of(segment).topic, positions=(gone.position,),
        offsets=offsets,
    )  # fmt: skip


def doubled_batch(case: Case, chance: random.Random) -> Planted | None:
    segment, batches, number = _picked(case, chance)
    parts = [batch.data for batch in batches]
    parts.insert(number, batches[number].data)
    case.write(segment, b"".join(parts))
    batch = batches[number]
    at = batch.position + len(batch.data)
    return Planted(("batch-order",), _short(segment), place_of(segment).topic, positions=(at,))


def wrong_offset_index(case: Case, chance: random.Random) -> Planted | None:
    return _wrong_entry(case, chance, OFFSET_INDEX_SUFFIX)


def wrong_time_index(case: Case, chance: random.Random) -> Planted | None:
    return _wrong_entry(case, chance, TIME_INDEX_SUFFIX)


def _wrong_entry(case: Case, chance: random.Random, suffix: str) -> Planted | None:
    """An entry with another number in one of its fields. Where headers do not tell which offset has
    the newest time (wrapped messages, batches that the cleaner took), one is as good as another.
    """
    entry = OFFSET_INDEX_ENTRY if suffix == OFFSET_INDEX_SUFFIX else TIME_INDEX_ENTRY
    segment = chance.choice(case.segments())
    is_told = batches_of(segment.read_bytes())[0].header.magic == MAGIC
    if entry is TIME_INDEX_ENTRY and (not is_told or "compacted" in segment.parent.name):
        return None
    path = beside(segment, suffix)
    data = path.read_bytes() if path.exists() else b""
    used = [e for e in entry.iter_unpack(data[: len(data) - len(data) % entry.size]) if any(e)]
    if not used:
        return None
    number = chance.randrange(len(used))
    fields = list(used[number])
    told, offset = (1, 0) if entry is OFFSET_INDEX_ENTRY else (0, 1)
    if chance.random() < 0.5:
        fields[told] += chance.choice([1, 7, 400, 5_000_000])
    else:
        fields[offset] += 5_000_000  # a little is what another append might have written
    at = number * entry.size
    case.write(path, data[:at] + entry.pack(*fields) + data[at + entry.size :])
    codes = tuple(f"{suffix[1:]}-{what}" for what in ("entry", "order", "beyond", "short", "zeros"))
    return Planted(codes, _short(path), place_of(path).topic)


def wrong_transaction_index(case: Case, chance: random.Random) -> Planted | None:
    segments = [s for s in case.segments() if beside(s, TRANSACTION_INDEX_SUFFIX).exists()]
    path = beside(chance.choice(segments), TRANSACTION_INDEX_SUFFIX) if segments else None
    data = path.read_bytes() if path else b""
    if path is None or not data or "compacted" in path.parent.name:
        return None
    at = chance.randrange(len(data))
    case.write(path, data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :])
    codes = tuple(
        f"txnindex-{what}" for what in ("unreadable", "order", "entry", "missing", "beyond")
    )
    return Planted(codes, _short(path), place_of(path).topic)


def missing_index(case: Case, chance: random.Random) -> Planted | None:
    segment = chance.choice(case.segments())
    path = beside(segment, chance.choice([OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX]))
    if not path.exists():
        return None
    case.remove(path)
    return Planted(("index-missing",), _short(path), place_of(segment).topic)


def _producer_batches(case: Case, chance: random.Random) -> tuple[Path, list[Batch], int] | None:
    """A segment, and a batch in it that follows another of its producer in the same epoch."""
    segment = chance.choice(case.segments())
    if "compacted" in segment.parent.name:
        return None
    batches = batches_of(segment.read_bytes())
    seen: set[tuple[int, int]] = set()
    found = []
    for number, (_, header, _data) in enumerate(batches):
        key = (header.producer_id, header.producer_epoch)
        if header.producer_id >= 0 and not header.is_control and header.base_sequence >= 0:
            if key in seen:
                found.append(number)
            seen.add(key)
    return (segment, batches, chance.choice(found)) if found else None


def _sequences(case: Case, chance: random.Random, step: int, code: str) -> Planted | None:
    """All batches of a producer, from one on, have other sequences."""
    picked = _producer_batches(case, chance)
    if picked is None:
        return None
    segment, batches, number = picked
    header = batches[number].header
    if header.base_sequence + step < 0:
        return None
    parts = []
    for at, batch in enumerate(batches):
        same = batch.header.producer_id == header.producer_id and not batch.header.is_control
        if at >= number and same:
            fields = {"base_sequence": batch.header.base_sequence + step}
            parts.append(with_fields(batch, **fields))
        else:
            parts.append(batch.data)
    case.write(segment, b"".join(parts))
    return Planted(
        (code,), _short(segment), place_of(segment).topic, positions=(batches[number].position,)
    )


def sequence_gap(case: Case, chance: random.Random) -> Planted | None:
    return _sequences(case, chance, chance.randrange(1, 1_000), "sequence-gap")


def sequence_repeated(case: Case, chance: random.Random) -> Planted | None:
    return _sequences(case, chance, -chance.randrange(1, 3), "sequence-duplicate")


def old_producer_epoch(case: Case, chance: random.Random) -> Planted | None:
    """The batch before has a newer epoch, and begins it as it should."""
    picked = _producer_batches(case, chance)
    if picked is None:
        return None
    segment, batches, number = picked
    header = batches[number].header
    parts = [batch.data for batch in batches]
    before = max(at for at in range(number) if batches[at].header.producer_id == header.producer_id)
    epoch = header.producer_epoch + 1
    if batches[before].header.is_control:
        return None
    parts[before] = with_fields(batches[before], producer_epoch=epoch, base_sequence=0)
    case.write(segment, b"".join(parts))
    return Planted(
        ("producer-epoch",), _short(segment), place_of(segment).topic,
        positions=(batches[number].position,),
    )  # fmt: skip


def absurd_timestamp(case: Case, chance: random.Random) -> Planted | None:
    segment, batches, number = _picked(case, chance)
    batch = batches[number]
    header = batch.header
    is_sent = header.timestamp_type == CREATE_TIME and header.delete_horizon_ms is None
    if header.magic < MAGIC or header.is_control or not is_sent or not header.record_count:
        return None
    code, fields = chance.choice(
        [
            ("timestamp-future", {"max_timestamp": NOW_MS + 10**12}),
            ("timestamp-future", {"max_timestamp": 2**62}),
            ("timestamp-negative", {"base_timestamp": -(10**12)}),
            ("timestamp-negative", {"max_timestamp": -5, "base_timestamp": -7}),
            ("timestamp-order", {"base_timestamp": header.max_timestamp + 10}),
        ]
    )
    parts = [each.data for each in batches]
    parts[number] = with_fields(batch, **fields)
    case.write(segment, b"".join(parts))
    return Planted((code,), _short(segment), place_of(segment).topic, positions=(batch.position,))


def wrong_records(case: Case, chance: random.Random) -> Planted | None:
    """Records that cannot be read, under a CRC that is right."""
    segment, batches, number = _picked(case, chance)
    batch = batches[number]
    if batch.header.magic < MAGIC or batch.header.compression or not batch.header.record_count:
        return None
    data = bytearray(batch.data)
    data[61] ^= 0x04  # the first record's length
    parts = [each.data for each in batches]
    parts[number] = with_crc(bytes(data))
    case.write(segment, b"".join(parts))
    codes = ("batch-records", "batch-control")
    return Planted(
        codes, _short(segment), place_of(segment).topic, positions=(batch.position,),
        needs_deep=True,
    )  # fmt: skip


def changed_record(case: Case, chance: random.Random) -> Planted | None:
    """A value with another letter, under a CRC that is right: the archive knows the old one."""
    segment, batches, number = _picked(case, chance)
    batch = batches[number]
    at = batch.data.rfind(b"value-")
    is_open = batch.header.magic == MAGIC and not batch.header.compression
    is_archived = not place_of(segment).topic.endswith("-deleted")
    if at < 0 or not is_open or batch.header.is_transactional or not is_archived:
        return None
    data = batch.data[:at] + b"Value-" + batch.data[at + 6 :]
    parts = [each.data for each in batches]
    parts[number] = with_crc(data)
    case.write(segment, b"".join(parts))
    offsets = range(batch.header.base_offset, batch.header.last_offset + 1)
    topic = place_of(segment).topic
    return Planted(("archive-differs",), f"data/{topic}/", topic, offsets=offsets, needs_deep=True)


def wrong_snapshot(case: Case, chance: random.Random) -> Planted | None:
    path = beside(chance.choice(case.segments()), PRODUCER_SNAPSHOT_SUFFIX)
    if not path.exists():
        return None
    data = path.read_bytes()
    at = chance.randrange(len(data))
    case.write(path, data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :])
    return Planted(("snapshot",), _short(path), place_of(path).topic)


def missing_snapshot(case: Case, chance: random.Random) -> Planted | None:
    segment = chance.choice(case.segments(least=2))
    path = beside(segment, PRODUCER_SNAPSHOT_SUFFIX)
    if segment == min(segment.parent.glob("*.log")) or not path.exists():
        return None
    case.remove(path)
    return Planted(("snapshot-missing",), _short(path), place_of(segment).topic)


def wrong_epochs(case: Case, chance: random.Random) -> Planted | None:
    segments = [s for s in case.segments() if batches_of(s.read_bytes())[0].header.magic == MAGIC]
    path = chance.choice(segments).parent / "leader-epoch-checkpoint"
    # Below the log start epochs have no entries any more.
    if not path.exists() or place_of(path).topic.endswith("-deleted"):
        return None
    case.write(path, chance.choice([b"0\n1\n99 0\n", b"0\n2\n1 0\n0 9\n", b"0\n7\n", b"\0" * 9]))
    codes = (*_EPOCHS, "epochs-order", "epochs-unreadable")
    return Planted(codes, _short(path), place_of(path).topic)


def wrong_checkpoint(case: Case, chance: random.Random) -> Planted | None:
    name = chance.choice(["recovery-point", "replication", "log-start"])
    path = case.directory / f"{name}-offset-checkpoint"
    segment = chance.choice(case.segments())
    if chance.random() < 0.5:
        case.write(path, b"\x01" + path.read_bytes()[1:])
        return Planted(("checkpoint-unreadable",), path.name)
    topic, partition = place_of(segment)
    case.write(path, f"0\n1\n{topic} {partition} 987654321\n".encode())
    codes = ("recovery-point", "high-watermark", "log-start-offset")
    return Planted(codes, segment.parent.name, topic)


def wrong_topic_id(case: Case, chance: random.Random) -> Planted | None:
    segment = chance.choice(case.segments())
    path = segment.parent / "partition.metadata"
    if not path.exists():
        return None
    if (segment.parent.parent / f"{place_of(segment).topic}-1").exists() and chance.random() < 0.8:
        other = chance.choice(
            [s for s in case.segments() if place_of(s).topic != place_of(segment).topic]
        )
        case.write(path, (other.parent / "partition.metadata").read_bytes())
        return Planted(("topic-id",), place_of(segment).topic, place_of(segment).topic)
    case.write(path, path.read_bytes().replace(b"version: 0", b"version: 3"))
    return Planted(("partition-metadata",), _short(path), place_of(path).topic)


def wrong_meta_properties(case: Case, chance: random.Random) -> Planted | None:
    path = case.directory / "meta.properties"
    case.write(path, chance.choice([b"\xff\xfe", b"version=77\n"]))
    return Planted(("meta-properties",), path.name)


LOG_FAULTS: tuple[Fault, ...] = (
    flipped_bit_in_log, cut_tail, cut_tail_with_all_traces, missing_segment, lost_batch,
    doubled_batch, wrong_offset_index, wrong_time_index, wrong_transaction_index, missing_index,
    sequence_gap, sequence_repeated, old_producer_epoch, absurd_timestamp, wrong_records,
    changed_record, wrong_snapshot, missing_snapshot, wrong_epochs, wrong_checkpoint,
    wrong_topic_id, wrong_meta_properties,
)  # fmt: skip
