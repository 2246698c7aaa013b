"""Findings on the checkpoint files of a data directory and on its meta.properties: that they cannot
be read, or were emptied, and what a broker does without them.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.inspection.data_directory import DataDirectory
from kbroker.inspection.disk_advice import advice_on
from kbroker.inspection.finding import Finding, Severity
from kbroker.inspection.finding_codes import FindingCode
from kbroker.log.disk.format import (
    CLEANER_OFFSET_CHECKPOINT_FILE,
    GAPLESS_OFFSET_CHECKPOINT_FILE,
    LOG_START_OFFSET_CHECKPOINT_FILE,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
)

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


def unreadable_files(home: DataDirectory) -> Iterator[Finding]:
    """Yield a finding for each file that could not be read."""
    for file, error in home.errors.items():
        if file == META_PROPERTIES_FILE:
            code, otherwise = FindingCode.META_PROPERTIES, _NO_START
        else:
            code = FindingCode.CHECKPOINT_UNREADABLE
            otherwise = f"it counts as empty and is written again: {_WITHOUT[file]}"
        what = f"cannot be read: {error}"
        yield code.finding(f"{home.path}/{file}", what, advice_on(error, otherwise))


def emptied_checkpoints(home: DataDirectory) -> Iterator[Finding]:
    """Yield findings on checkpoint files that had content once, if no broker is at work here.

    Apache Kafka makes these files with no content and fills them within a minute, that of the
    cleaner when something is first compacted: nothing is to be said of that.
    """
    for file in home.empty:
        if _was_filled(home, file):
            yield _emptied(home, file, Severity.WARNING, "it was emptied, and is written again")
        elif file == LOG_START_OFFSET_CHECKPOINT_FILE and _has_content(
            home, RECOVERY_POINT_CHECKPOINT_FILE
        ):  # they are written one right after the other
            said = "it was emptied, or the broker ended within its first minute"
            yield _emptied(home, file, Severity.INFO, said)


def _was_filled(home: DataDirectory, file: str) -> bool:
    if home.was_clean:
        return file not in (CLEANER_OFFSET_CHECKPOINT_FILE, GAPLESS_OFFSET_CHECKPOINT_FILE)
    if file == RECOVERY_POINT_CHECKPOINT_FILE:
        return _has_content(home, LOG_START_OFFSET_CHECKPOINT_FILE)
    # High watermarks are written from some seconds after the first partition on.
    has_recovery_points = bool(home.offsets.get(RECOVERY_POINT_CHECKPOINT_FILE))
    return file == REPLICATION_OFFSET_CHECKPOINT_FILE and has_recovery_points


def _has_content(home: DataDirectory, file: str) -> bool:
    return file in home.offsets and file not in home.empty


def _emptied(home: DataDirectory, file: str, severity: Severity, said: str) -> Finding:
    what = "the file is empty, without even a version"
    advice = f"{said}: {_WITHOUT[file]}"
    path = f"{home.path}/{file}"
    return FindingCode.CHECKPOINT_EMPTY.finding(path, what, advice, severity=severity)
