"""Faults of archives that an audit has to find, and of clusters beside them: each function plants
one, or says None where what it was given to cannot have it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kbroker.client.consumer_groups import ConsumerGroup
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.archive_reading import (
    MARK_NAME,
    manifest_path,
    read_archive,
)
from kbroker.pipeline.archiving.manifests.file_check import file_checksum
from kbroker.pipeline.archiving.manifests.manifest import (
    ABORTED,
    UNEXPLAINED,
    FileEntry,
    HoleEntry,
    Manifest,
    decode_manifest,
    encode_manifest,
)
from kbroker.pipeline.archiving.tasks.record_files import open_parquet
from kbroker.pipeline.auditing.clusters.cluster_offsets import ClusterOffsets
from kbroker.pipeline.spark_job.offsets import OffsetRange
from tests.faults.audit_case import BOOTSTRAP, Ask, Case, Planted
from tests.faults.audit_log_faults import Fault

_FEW_ROWS = 3


@dataclass
class Target:
    """A file of the archive, with the manifest that added it."""

    case: Case
    entry: FileEntry
    number: int
    manifest: Manifest

    @property
    def path(self) -> Path:
        return self.case.archive / self.entry.path

    def table(self) -> pa.Table:
        return pq.ParquetFile(self.path).read()

    def replace(self, table: pa.Table) -> FileEntry:
        """Give the file other rows; what a manifest would truly say of it."""
        written = self.path.with_name("written.parquet")
        writer = open_parquet(str(written), table.schema)
        writer.write_table(table)
        writer.close()
        self.case.write(self.path, written.read_bytes())
        written.unlink()
        offsets = table.column("offset").to_numpy()
        return msgspec.structs.replace(
            self.entry,
            rows=table.num_rows,
            size_bytes=self.path.stat().st_size,
            checksum=file_checksum(str(self.path)),
            first_offset=int(offsets.min()),
            last_offset=int(offsets.max()),
        )

    def say(self, entry: FileEntry | None, holes: tuple[HoleEntry, ...] = ()) -> None:
        """Let the manifest tell of the file so (None: not at all), and of more holes."""
        others = tuple(each for each in self.manifest.added if each.path != self.entry.path)
        added = (*others, entry) if entry is not None else others
        changed = msgspec.structs.replace(
            self.manifest, added=added, holes=(*self.manifest.holes, *holes)
        )
        path = Path(manifest_path(str(self.case.archive), self.number))
        self.case.write(path, encode_manifest(changed))

    def planted(self, *codes: str, offset: int | None = None, deep: bool = False) -> Planted:
        """To be named with the file, or with its partition in the archive."""
        offsets = None if offset is None else range(offset, offset + 1)
        return Planted(codes, str(self.case.archive), self.entry.topic, (), offsets, deep)


def _target(case: Case, chance: random.Random, *, rows: int = 1) -> Target | None:
    state = read_archive(str(case.archive))
    entries = [
        each for each in state.entries() if each.rows >= rows and not each.topic.startswith("gaps")
    ]
    entry = chance.choice(entries)
    for number in range(state.number + 1):
        data = Path(manifest_path(str(case.archive), number)).read_bytes()
        manifest = decode_manifest(data)
        if entry in manifest.added:
            return Target(case, entry, number, manifest)
    return None


def flipped_bit_in_file(case: Case, chance: random.Random) -> Planted | None:
    target = _target(case, chance)
    assert target is not None
    data = bytearray(target.path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    case.write(target.path, bytes(data))
    return Planted(("archive-file-checksum",), target.entry.path, target.entry.topic)


def cut_file(case: Case, chance: random.Random) -> Planted | None:
    target = _target(case, chance)
    assert target is not None
    data = target.path.read_bytes()
    case.write(target.path, data[: chance.randrange(len(data))])
    return Planted(("archive-file-size",), target.entry.path, target.entry.topic)


def missing_file(case: Case, chance: random.Random) -> Planted | None:
    target = _target(case, chance)
    assert target is not None
    case.remove(target.path)
    return Planted(("archive-file-missing",), target.entry.path, target.entry.topic)


def _without_row(target: Target, chance: random.Random) -> tuple[pa.Table, int]:
    """The rows without one from the middle, and the offset of that."""
    table = target.table()
    at = chance.randrange(1, table.num_rows - 1)
    kept = np.delete(np.arange(table.num_rows), at)
    return table.take(pa.array(kept)), table.column("offset")[at].as_py()


def lost_row(case: Case, chance: random.Random) -> Planted | None:
    """The file has a row less, the manifest is as it was."""
    target = _target(case, chance, rows=_FEW_ROWS)
    assert target is not None
    table, offset = _without_row(target, chance)
    target.replace(table)
    return target.planted("archive-lost", offset=offset)


def lost_row_with_manifest(case: Case, chance: random.Random) -> Planted | None:
    """The manifest tells of the file as it is."""
    target = _target(case, chance, rows=_FEW_ROWS)
    assert target is not None
    table, offset = _without_row(target, chance)
    target.say(target.replace(table))
    return target.planted("archive-lost", offset=offset)


def lost_row_in_a_hole(case: Case, chance: random.Random) -> Planted | None:
    """File and manifest agree, and all adds up: only the log knows better."""
    target = _target(case, chance, rows=_FEW_ROWS)
    assert target is not None
    if target.entry.topic.startswith(("txn", "compacted")):
        return None
    table, offset = _without_row(target, chance)
    reason = chance.choice([UNEXPLAINED, ABORTED, "compaction", "retention"])
    hole = HoleEntry(
        topic=target.entry.topic, partition=target.entry.partition, first_offset=offset,
        last_offset=offset, missing=1, reason=reason,
    )  # fmt: skip
    target.say(target.replace(table), (hole,))
    return target.planted("archive-lost", "archive-hole-contradicted", offset=offset)


def doubled_row(case: Case, chance: random.Random) -> Planted | None:
    target = _target(case, chance, rows=_FEW_ROWS)
    assert target is not None
    table = target.table()
    at = chance.randrange(table.num_rows)
    doubled = table.take(pa.array(np.insert(np.arange(table.num_rows), at, at)))
    entry = target.replace(doubled)
    if chance.random() < 0.5:
        target.say(entry)
    return target.planted("archive-doubled", offset=table.column("offset")[at].as_py())


def doubled_file(case: Case, chance: random.Random) -> Planted | None:
    """Some rows of a file are in a second one, which a manifest adds, too."""
    target = _target(case, chance, rows=_FEW_ROWS)
    assert target is not None
    table = target.table()
    part = table.slice(chance.randrange(table.num_rows - 1))
    copy = target.path.with_name(f"copy-of-{target.path.name}")
    second = Target(case, target.entry, target.number, target.manifest)
    entry = msgspec.structs.replace(
        target.entry, path=str(copy.relative_to(case.archive)), kind="data"
    )
    second.entry = entry
    case.write(copy, b"")
    second.say(second.replace(part))
    return target.planted("archive-doubled", offset=part.column("offset")[0].as_py())


def lost_file_with_manifest(case: Case, chance: random.Random) -> Planted | None:
    target = _target(case, chance)
    assert target is not None
    case.remove(target.path)
    target.say(None)
    return target.planted("archive-lost", offset=target.entry.first_offset)


def changed_row(case: Case, chance: random.Random) -> Planted | None:
    """Another value, with a manifest that agrees: only the log knows."""
    target = _target(case, chance)
    assert target is not None
    table = target.table()
    at = chance.randrange(table.num_rows)
    name = chance.choice(["value", "key", "headers", "timestampType"])
    column = table.column(name).to_pylist()
    other = {"value": b"another", "key": b"other", "headers": [{"key": "x", "value": b"y"}]}
    column[at] = other.get(name, 7)
    kind = table.schema.field(name).type
    index = table.column_names.index(name)
    target.say(target.replace(table.set_column(index, name, pa.array(column, kind))))
    return target.planted("archive-differs", offset=table.column("offset")[at].as_py(), deep=True)


def rows_out_of_order(case: Case, chance: random.Random) -> Planted | None:
    target = _target(case, chance, rows=_FEW_ROWS)
    assert target is not None
    order = np.arange(target.entry.rows)
    at = chance.randrange(len(order) - 1)
    order[[at, at + 1]] = order[[at + 1, at]]
    table = target.table()
    target.say(target.replace(table.take(pa.array(order))))
    return Planted(
        ("archive-order",), target.entry.path, target.entry.topic,
        offsets=range(table.column("offset")[at].as_py(), target.entry.last_offset + 1),
    )  # fmt: skip


def rows_of_another_partition(case: Case, chance: random.Random) -> Planted | None:
    target = _target(case, chance)
    assert target is not None
    table = target.table()
    index = table.column_names.index("partition")
    numbers = pa.array([77] * table.num_rows, table.schema.field("partition").type)
    target.say(target.replace(table.set_column(index, "partition", numbers)))
    return Planted(("archive-place",), target.entry.path, target.entry.topic)


def wrong_facts_in_manifest(case: Case, chance: random.Random) -> Planted | None:
    """The file is sound, the manifest says something else of it."""
    target = _target(case, chance)
    assert target is not None
    code, fields = chance.choice(
        [
            ("archive-rows", {"rows": target.entry.rows + 1}),
            ("archive-offsets", {"first_offset": target.entry.first_offset - 1}),
            ("archive-offsets", {"last_offset": target.entry.last_offset + 3}),
            ("archive-timestamps", {"max_timestamp_ms": 4_711}),
            ("archive-hour", {"hour": "1999-01-01T00"}),
            ("archive-file-size", {"size_bytes": 3}),
            ("archive-file-checksum", {"checksum": "crc32c:00000000"}),
        ]
    )
    if code == "archive-timestamps" and target.entry.min_timestamp_ms == -1:
        return None
    target.say(msgspec.structs.replace(target.entry, **fields))
    return Planted((code,), target.entry.path, target.entry.topic)


def flipped_bit_in_manifest(case: Case, chance: random.Random) -> Planted | None:
    number = chance.randrange(read_archive(str(case.archive)).number + 1)
    path = Path(manifest_path(str(case.archive), number))
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    case.write(path, bytes(data))
    return Planted(("manifest-damaged", "manifest-foreign"), f"manifests/{path.name}")


def missing_manifest(case: Case, chance: random.Random) -> Planted | None:
    state = read_archive(str(case.archive))
    number = chance.randrange(state.number)
    path = Path(manifest_path(str(case.archive), number))
    case.remove(path)
    return Planted(("manifest-missing",), f"manifests/{path.name}")


def wrong_mark(case: Case, chance: random.Random) -> Planted | None:
    path = case.archive / MARK_NAME
    if chance.random() < 0.5:
        case.remove(path)
    else:
        case.write(path, path.read_bytes()[:-9])
    return Planted(("archive-mark",), path.name)


def _cluster(case: Case, place: TopicPartition, **change: int) -> Ask | None:
    """A cluster that has what the directory has, but for one partition; `committed` is that of a
    group.
    """
    found = {
        each.topic_partition: each.logs[0].range
        for each in case.audit().partitions
        if each.logs and each.logs[0].range is not None
    }
    before = found[place]
    if before.end - before.start < 2:
        return None
    committed = change.pop("committed", None)
    changed = {"start": before.start, "end": before.end} | change
    partitions = {**found, place: OffsetRange(**changed)}
    group = ConsumerGroup(name="g", state="Empty", committed={place: committed})
    groups = {"g": group} if committed is not None else {}

    def ask(bootstrap: str, topics: tuple[str, ...] | None) -> ClusterOffsets:
        chosen = {p: r for p, r in partitions.items() if topics is None or p.topic in topics}
        return ClusterOffsets(bootstrap=bootstrap, partitions=chosen, groups=groups)

    return ask


def _place(case: Case, chance: random.Random) -> tuple[TopicPartition, OffsetRange]:
    sides = [each for each in case.audit().partitions if each.logs and each.archive]
    each = chance.choice(sides)
    offsets = each.logs[0].range
    assert offsets is not None
    return each.topic_partition, offsets


def cluster_lost_its_end(case: Case, chance: random.Random) -> Planted | None:
    place, offsets = _place(case, chance)
    if place.topic in {"txn", "compacted-txn"} or offsets.count < 2:
        return None  # of these the archive may end before the log does
    end = chance.randrange(offsets.start, offsets.end)
    ask = _cluster(case, place, end=end)
    codes = ("cluster-behind-archive",)
    return Planted(
        codes, f"{BOOTSTRAP} ({place})", place.topic, offsets=range(end, end + 1), ask=ask
    )


def cluster_goes_on(case: Case, chance: random.Random) -> Planted | None:
    place, offsets = _place(case, chance)
    ask = _cluster(case, place, end=offsets.end + chance.randrange(1, 99))
    codes = ("log-behind-cluster",)
    return ask and Planted(
        codes, f"({place})", place.topic, offsets=range(offsets.end, offsets.end + 1), ask=ask
    )


def group_beyond_end(case: Case, chance: random.Random) -> Planted | None:
    place, offsets = _place(case, chance)
    committed = offsets.end + chance.randrange(1, 99)
    ask = _cluster(case, place, committed=committed)
    codes = ("group-beyond-end",)
    return ask and Planted(
        codes, f"({place})", place.topic, offsets=range(committed, committed + 1), ask=ask
    )


ARCHIVE_FAULTS: tuple[Fault, ...] = (
    flipped_bit_in_file, cut_file, missing_file, lost_row, lost_row_with_manifest,
    lost_row_in_a_hole, doubled_row, doubled_file, lost_file_with_manifest, changed_row,
    rows_out_of_order, rows_of_another_partition, wrong_facts_in_manifest,
    flipped_bit_in_manifest, missing_manifest, wrong_mark, cluster_lost_its_end, cluster_goes_on,
    group_beyond_end,
)  # fmt: skip
