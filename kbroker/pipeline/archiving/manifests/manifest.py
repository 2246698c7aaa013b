"""The manifest of one step: which files an archive gained and lost, and why. Pure.

An archive is what its manifests say, one after the other; a file that no manifest names is not part
of it. A manifest is one JSON object, written once and never changed:

    {"checksum": "crc32c:01234567", "content": {...}}

The checksum is that of the bytes of the inner object, as they stand in the file. Offsets named
`end` are exclusive, `last` inclusive; times are Unix milliseconds, -1 if a record has none.

Law: in a manifest of kind `batch`, rows of its data files plus missing offsets of its holes are the
length of its ranges, for every partition. So a count is enough to see that nothing is lost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec
from fastcrc.crc32 import iscsi as crc32c

from kbroker.config.config_values import MAX_INT, MAX_LONG
from kbroker.model import TopicPartition
from kbroker.topic_name import topic_name_fault

LAYOUT_VERSION: Final = 1
NO_HOUR: Final = "no-time"  # of records without a time, or with one beyond the calendar

ManifestKind = Literal["batch", "merge", "expire", "clean", "groups"]
FileKind = Literal["data", "rejected"]
# Group -> topic -> partition -> the offset that the group reads next.
GroupOffsets = dict[str, dict[str, dict[int, int]]]

# Why offsets of a range are in no file.
TRANSACTION_MARKER: Final = "transaction marker"
ABORTED: Final = "aborted transaction"
COMPACTION: Final = "compaction"
RETENTION: Final = "retention"  # deleted at the source before they were archived, by its own words
EXPIRED: Final = "expired"  # deleted from the archive by its own retention
UNREADABLE: Final = "unreadable"  # the source has them, but did not deliver them
UNEXPLAINED: Final = "unexplained"

_HOUR = re.compile(r"(\d{4}-\d{2}-\d{2})T(\d{2})")
_MOST_PARTITIONS = 1_000_000  # of a topic: far beyond what a cluster can hold
_LONGEST = 180  # of a topic's name in that of a file: a disk takes 255 bytes
_PATH = re.compile(r"(data|rejected)(/[A-Za-z0-9._-]+)+\.parquet")


class ManifestError(Exception):
    """Bytes that are not a manifest; the message is the end of a sentence about the file."""


class OtherLayoutError(ManifestError):
    """A sound manifest of a layout that this version does not know."""


class FileEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One Parquet file: records of one partition and one hour, by rising offset."""

    path: str  # below the archive's directory, with "/"
    kind: FileKind = "data"
    topic: str
    partition: int
    hour: str  # of the records' time, UTC: "2026-11-21T13", or NO_HOUR
    first_offset: int
    last_offset: int
    rows: int
    size_bytes: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    checksum: str  # of the file's bytes

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class _OfPartition(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class RangeEntry(_OfPartition, frozen=True, kw_only=True):
    """Offsets [start, end) of a partition that a batch dealt with."""

    start_offset: int
    end_offset: int


class HoleEntry(_OfPartition, frozen=True, kw_only=True):
    """Offsets that are in no file: `missing` of those from first to last, or all of them."""

    first_offset: int
    last_offset: int
    missing: int
    reason: str


class EpochNote(_OfPartition, frozen=True, kw_only=True):
    """No record below `end_offset` was read from a leader with a higher epoch. From `replaced_from`
    on (-1: nowhere) up to the batch the source had other records by then than the archive.
    """

    leader_epoch: int
    end_offset: int
    replaced_from: int = -1


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One step of an archive. `job` and `batch` make a replay recognisable."""

    layout_version: int = LAYOUT_VERSION
    archive_id: str
    number: int  # its place in the log, from 0
    kind: ManifestKind
    kbroker_version: str
    written_ms: int
    job: str
    batch: int
    ranges: tuple[RangeEntry, ...] = ()
    holes: tuple[HoleEntry, ...] = ()
    added: tuple[FileEntry, ...] = ()
    removed: tuple[str, ...] = ()  # paths that readers leave from here on
    deleted: tuple[str, ...] = ()  # removed earlier, now gone from the disk too
    json_schemas: dict[str, str] = {}  # topic -> schema of its column `json`, Spark's JSON
    topic_ids: dict[str, str] = {}  # topic -> id, of topics in `ranges` that have one
    cluster_ids: dict[str, str] = {}  # topic -> id of its cluster, the same
    leader_epochs: tuple[EpochNote, ...] = ()  # of partitions in `ranges`, if they are known
    # Of topics in `ranges`, if they are known and no manifest before says the same.
    topic_settings: dict[str, dict[str, str]] = {}  # topic -> its own settings; none: all defaults
    partition_counts: dict[str, int] = {}  # topic -> how many partitions it has
    group_offsets: GroupOffsets = {}  # unless an earlier manifest says so; {}: none any more


class _Version(msgspec.Struct):
    layout_version: int


class _Sealed(msgspec.Struct):
    checksum: str
    content: msgspec.Raw


def seal(value: msgspec.Struct) -> bytes:
    """Return the bytes of a file that holds this value and its checksum."""
    content = msgspec.json.encode(value)
    return msgspec.json.encode(_Sealed(checksum=checksum_of(content), content=msgspec.Raw(content)))


def unseal(data: bytes) -> bytes:
    """Return the JSON object in a sealed file of a known layout; ManifestError for others."""
    try:
        sealed = msgspec.json.decode(data, type=_Sealed)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ManifestError(f"is not a manifest, or half of one ({error})") from error
    content = bytes(sealed.content)
    if checksum_of(content) != sealed.checksum:
        raise ManifestError(f"is damaged: its content does not have {sealed.checksum}")
    try:
        version = msgspec.json.decode(content, type=_Version).layout_version
    except msgspec.DecodeError as error:
        raise ManifestError(f"is not a manifest ({error})") from error
    if version != LAYOUT_VERSION:
        raise OtherLayoutError(
            f"has layout version {version}, and this kbroker knows {LAYOUT_VERSION}: "
            "use the kbroker that wrote it, or a newer one"
        )
    return content


def encode_manifest(manifest: Manifest) -> bytes:
    return seal(manifest)


def decode_manifest(data: bytes) -> Manifest:
    """Parse the bytes of a manifest's file; raises ManifestError."""
    try:
        manifest = msgspec.json.decode(unseal(data), type=Manifest)
    except msgspec.DecodeError as error:
        raise ManifestError(f"is not a manifest ({error})") from error
    check_names(manifest)
    return manifest


def check_names(manifest: Manifest) -> None:
    """Raise ManifestError for a path out of the archive, and for names that no topic can have."""
    paths = [entry.path for entry in manifest.added]
    check_paths([*paths, *manifest.removed, *manifest.deleted])
    check_topics(manifest.added, manifest.ranges)
    check_partitions(manifest.added, manifest.ranges, manifest.partition_counts)
    check_offsets(manifest.ranges, manifest.leader_epochs)


def check_paths(paths: list[str]) -> None:
    """Raise ManifestError for a path out of the archive: files are deleted by these names."""
    for path in paths:
        if not is_file_path(path):
            raise ManifestError(f"names '{path}', which is not a file of an archive")


def check_topics(files: Iterable[FileEntry], ranges: Iterable[RangeEntry]) -> None:
    """Raise ManifestError for a name that no topic has: files are made by these names, and whoever
    makes an archive may write anything into it.
    """
    names = {each.topic for each in files} | {each.topic for each in ranges}
    for name in sorted(names):
        fault = topic_name_fault(name)
        if fault is not None:
            raise ManifestError(f"names '{name}', which no topic is called: {fault}")


def check_partitions(
    files: Iterable[FileEntry], ranges: Iterable[RangeEntry], counts: Mapping[str, int]
) -> None:
    """Raise ManifestError for a number that no partition has, and for a number of partitions that
    no topic has: a restore makes all of them.
    """
    named = {each.topic_partition for each in files} | {each.topic_partition for each in ranges}
    for topic, partition in sorted(named):
        if not 0 <= partition < _MOST_PARTITIONS:
            raise ManifestError(f"names partition {partition} of {topic}, which no topic has")
    for topic, count in sorted(counts.items()):
        if not 0 <= count <= _MOST_PARTITIONS:
            raise ManifestError(f"gives {topic} {count} partitions, as no topic has")


def check_offsets(ranges: Iterable[RangeEntry], epochs: Iterable[EpochNote]) -> None:
    """Raise ManifestError for offsets and leader epochs that no log has."""
    for each in ranges:
        if not 0 <= each.start_offset <= each.end_offset <= MAX_LONG:
            raise ManifestError(
                f"names offsets {each.start_offset} to {each.end_offset} of "
                f"{each.topic_partition}, which no log has"
            )
    for entry in epochs:
        if entry.leader_epoch > MAX_INT:
            raise ManifestError(
                f"names leader epoch {entry.leader_epoch} of {entry.topic_partition}, which no "
                "log has"
            )


def is_file_path(path: str) -> bool:
    """Return whether this can be the path of a file of an archive, below its directory."""
    return _PATH.fullmatch(path) is not None and ".." not in path.split("/")


def checksum_of(data: bytes) -> str:
    """Return CRC-32C as manifests write it."""
    return f"crc32c:{crc32c(data):08x}"


def file_path(kind: FileKind, topic: str, hour: str, name: str) -> str:
    """Return the path of a file below the archive's directory.

    Folders are not named `key=value`: Spark would make columns of them, which readers of single
    files do not have, and would read a topic's name as a number or a date if it looks like one.
    """
    matched = _HOUR.fullmatch(hour)
    folders = f"{matched[1]}/{matched[2]}" if matched else NO_HOUR
    return f"{kind}/{topic}/{folders}/{name}"


def file_name(topic: str, partition: int, first_offset: int, last_offset: int) -> str:
    """Return a file's name, which says what is in it; the folder has the topic's whole name."""
    return f"{topic[:_LONGEST]}-{partition}-{first_offset}-{last_offset}.parquet"


def unbalanced_partition(manifest: Manifest) -> str | None:
    """Return a sentence's end on the first partition that does not add up; None if all do."""
    expected: Counter[TopicPartition] = Counter()
    found: Counter[TopicPartition] = Counter()
    for covered in manifest.ranges:
        expected[covered.topic_partition] += covered.end_offset - covered.start_offset
    for entry in manifest.added:
        if entry.kind == "data":
            found[entry.topic_partition] += entry.rows
    for hole in manifest.holes:
        found[hole.topic_partition] += hole.missing
    for partition in sorted(expected.keys() | found.keys()):
        if expected[partition] != found[partition]:
            return (
                f"{partition}: ranges of {expected[partition]} offsets, "
                f"but {found[partition]} of them in files and holes"
            )
    return None
