"""A data directory as its checkpoint files show it, and what they say of each partition; for those
who only look.

Law: a file that cannot be read is a finding, not an exception: the other files still have something
to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kbroker.inspection.disk_advice import advice_on
from kbroker.inspection.finding import Finding, Severity
from kbroker.inspection.finding_codes import FindingCode
from kbroker.log.disk.checkpoint import (
    CheckpointError,
    MetaProperties,
    read_meta_properties,
    read_offset_checkpoint,
)
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT_FILE,
    GAPLESS_OFFSET_CHECKPOINT_FILE,
    LOG_START_OFFSET_CHECKPOINT_FILE,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
    is_moved_directory,
    parse_directory_name,
)
from kbroker.model import TopicPartition

CHECKPOINT_FILES = (
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
    LOG_START_OFFSET_CHECKPOINT_FILE,
    CLEANER_OFFSET_CHECKPOINT_FILE,
    GAPLESS_OFFSET_CHECKPOINT_FILE,
)
# What a broker does without a checkpoint file.
_WITHOUT = {
    RECOVERY_POINT_CHECKPOINT_FILE: "after an unclean stop every log is read from its beginning",
    REPLICATION_OFFSET_CHECKPOINT_FILE: "high watermarks begin at the log starts",
    LOG_START_OFFSET_CHECKPOINT_FILE: "records that were deleted within a segment are back",
    CLEANER_OFFSET_CHECKPOINT_FILE: "the cleaner starts from the beginning",
    GAPLESS_OFFSET_CHECKPOINT_FILE: "after an unclean stop no gap of offsets counts as damage",
}
_NO_START = (
    "no broker starts with this directory; write the file again with the ids of its cluster and "
    "broker"
)


@dataclass(frozen=True, slots=True)
class PartitionView:
    """The checkpoints' word on one partition; None if they have none."""

    was_clean: bool = False
    recovery_point: int | None = None
    high_watermark: int | None = None
    log_start_offset: int | None = None
    cleaner_offset: int | None = None
    gapless_from: int | None = None

    @property
    def gaps_up_to(self) -> int | None:
        """Up to where gaps of offsets tell nothing, as `LogDirectory.gapless_from` has it; None:
        anywhere.
        """
        if self.was_clean or self.gapless_from is None:
            return None
        return max(self.gapless_from, self.cleaner_offset or 0)

    def is_cut_before(self, base_offset: int) -> bool:
        """True if the next start takes a gap before the segment at `base_offset` for records
        that a power loss took.
        """
        gaps_up_to = self.gaps_up_to
        return gaps_up_to is not None and base_offset > max(gaps_up_to, self.recovery_point or 0)

    def is_recovered(self, next_base_offset: int | None) -> bool:
        """True if the next start reads the whole of a segment, and mends it: the one with the
        recovery point and all after it. None: no segment follows.
        """
        if self.was_clean:
            return False
        return next_base_offset is None or next_base_offset > (self.recovery_point or 0)


@dataclass(slots=True)
class LogDirectoryView:
    """A data directory. `partitions` and `moved` are names of directories, sorted."""

    path: str
    was_clean: bool = False
    meta: MetaProperties | None = None
    offsets: dict[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    partitions: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)  # checkpoint files of no bytes
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_used(self) -> bool:
        """True if a broker has been here."""
        return bool(self.partitions or self.moved or self.meta or self.offsets)

    def of(self, topic_partition: TopicPartition) -> PartitionView:
        """Return everything known about a partition."""

        def offset(file: str) -> int | None:
            return self.offsets.get(file, {}).get(topic_partition)

        return PartitionView(
            was_clean=self.was_clean,
            recovery_point=offset(RECOVERY_POINT_CHECKPOINT_FILE),
            high_watermark=offset(REPLICATION_OFFSET_CHECKPOINT_FILE),
            log_start_offset=offset(LOG_START_OFFSET_CHECKPOINT_FILE),
            cleaner_offset=offset(CLEANER_OFFSET_CHECKPOINT_FILE),
            gapless_from=offset(GAPLESS_OFFSET_CHECKPOINT_FILE),
        )


def view_log_directory(file_system: FileSystem, path: str) -> LogDirectoryView:
    """Look at a data directory and its checkpoint files. Raises StorageError for the directory."""
    view = LogDirectoryView(path)
    names = file_system.list(path)
    for name in names:
        is_directory = file_system.is_directory(f"{path}/{name}")
        if is_directory and is_moved_directory(name):
            view.moved.append(name)
        elif is_directory and parse_directory_name(name) is not None:
            view.partitions.append(name)
        else:
            view.others.append(name)
    view.was_clean = CLEAN_SHUTDOWN_FILE in names
    _read_meta(file_system, view)
    for file in CHECKPOINT_FILES:
        if file in names:
            _read_offsets(file_system, view, file)
    return view


def _read_meta(file_system: FileSystem, view: LogDirectoryView) -> None:
    try:
        view.meta = read_meta_properties(file_system, view.path)
    except (CheckpointError, StorageError) as error:
        view.findings.append(
            Finding(
                Severity.ERROR,
                FindingCode.META_PROPERTIES,
                f"{view.path}/{META_PROPERTIES_FILE}",
                f"cannot be read: {error}",
                advice_on(error, _NO_START),
            )
        )


def _read_offsets(file_system: FileSystem, view: LogDirectoryView, file: str) -> None:
    path = f"{view.path}/{file}"
    try:
        view.offsets[file] = read_offset_checkpoint(file_system, path)
        is_empty = not file_system.size(path)
    except (CheckpointError, StorageError) as error:
        view.offsets.setdefault(file, {})
        view.findings.append(
            Finding(
                Severity.WARNING,
                FindingCode.CHECKPOINT_UNREADABLE,
                path,
                f"cannot be read: {error}",
                advice_on(error, f"it counts as empty and is written again: {_WITHOUT[file]}"),
            )
        )
        return
    if is_empty:
        view.empty.append(file)


def emptied_checkpoints(view: LogDirectoryView) -> Iterator[Finding]:
    """Checkpoint files that had content once, on a directory where no broker is at work.

    Apache Kafka makes these files with no content and fills them within a minute, that of the
    cleaner when something is first compacted: nothing is to be said of that.
    """
    for file in view.empty:
        if _was_filled(view, file):
            yield _emptied(view, file, Severity.WARNING, "it was emptied, and is written again")
        elif file == LOG_START_OFFSET_CHECKPOINT_FILE and _has_content(
            view, RECOVERY_POINT_CHECKPOINT_FILE
        ):  # they are written one right after the other
            said = "it was emptied, or the broker ended within its first minute"
            yield _emptied(view, file, Severity.INFO, said)


def _was_filled(view: LogDirectoryView, file: str) -> bool:
    if view.was_clean:
        return file not in (CLEANER_OFFSET_CHECKPOINT_FILE, GAPLESS_OFFSET_CHECKPOINT_FILE)
    if file == RECOVERY_POINT_CHECKPOINT_FILE:
        return _has_content(view, LOG_START_OFFSET_CHECKPOINT_FILE)
    # High watermarks are written from some seconds after the first partition on.
    has_recovery_points = bool(view.offsets.get(RECOVERY_POINT_CHECKPOINT_FILE))
    return file == REPLICATION_OFFSET_CHECKPOINT_FILE and has_recovery_points


def _has_content(view: LogDirectoryView, file: str) -> bool:
    return file in view.offsets and file not in view.empty


def _emptied(view: LogDirectoryView, file: str, severity: Severity, said: str) -> Finding:
    what = "the file is empty, without even a version"
    advice = f"{said}: {_WITHOUT[file]}"
    return Finding(severity, FindingCode.CHECKPOINT_EMPTY, f"{view.path}/{file}", what, advice)
