"""Reads the manifests of an archive, one after the other, and finds what is wrong with them.

Readers stop at the first manifest that they cannot read; an audit goes on, and judges the rest by
what the others say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import msgspec

from kbroker.inspection.disk_advice import WHO_MAY_READ, is_forbidden
from kbroker.inspection.finding import Findings
from kbroker.log.disk.file_system import RealFileSystem, StorageError
from kbroker.pipeline.archiving.manifests.archive_reading import (
    MANIFESTS,
    MARK_NAME,
    NAME_PATTERN,
    manifest_path,
    read_manifest,
    read_mark,
    snapshot_path,
)
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState, Snapshot
from kbroker.pipeline.archiving.manifests.manifest import (
    Manifest,
    ManifestError,
    OtherLayoutError,
    unbalanced_partition,
    unseal,
)
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.finding_codes import AuditCode

_KINDS = ("data", "rejected")
_LEFT_OUT = (AuditCode.MANIFEST_DAMAGED, AuditCode.MANIFEST_MISSING, AuditCode.MANIFEST_FOREIGN)


@dataclass(frozen=True, slots=True)
class ReadArchive:
    """The state by the manifests, and the findings about them."""

    state: ArchiveState
    findings: Findings


def read_and_judge(path: str) -> ReadArchive:
    """Read the manifests of an archive. Raises PipelineError if there is no archive at all."""
    findings = Findings()
    return ReadArchive(read_history(path, findings), findings)


def read_history(path: str, findings: Findings) -> ArchiveState:
    """Join what all intact manifests say. Raises PipelineError if there is no archive at all."""
    disk = RealFileSystem()
    if not disk.exists(path):
        raise PipelineError(f"{path} does not exist", ExitCode.USAGE)
    if not disk.is_directory(path):
        raise PipelineError(f"{path} is not a directory: give that of an archive", ExitCode.USAGE)
    archive_id = _archive_id(path, findings)
    history = _History(path, archive_id, findings)
    numbers = sorted(_numbers(path, is_snapshot=False))
    snapshots = set(_numbers(path, is_snapshot=True))
    for expected, number in enumerate(numbers):
        if number != expected and (number - 1) not in numbers:
            history.missing(number)
        history.manifest(number)
        if number in snapshots:
            history.snapshot(number)
    return history.state


def foreign_files(state: ArchiveState, findings: Findings) -> None:
    """Report files that no manifest names; a run that was killed leaves some."""
    known = state.files.keys() | state.waiting.keys()
    for kind in _KINDS:
        for name in _files_below(state.path, kind):
            if name not in known:
                path, what = f"{state.path}/{name}", "is named by no manifest"
                findings.add(AuditCode.ARCHIVE_FOREIGN.finding(path, what))


def named_now(state: ArchiveState) -> Collection[str]:
    """Return the files of the archive now: a run may have merged or removed some meanwhile."""
    return read_history(state.path, Findings()).files.keys()


class _History:
    def __init__(self, path: str, archive_id: str | None, findings: Findings) -> None:
        self.state = ArchiveState(path=path, archive_id=archive_id or "")
        self._path = path
        self._findings = findings
        self._disk = RealFileSystem()
        self._is_whole = True

    def missing(self, number: int) -> None:
        """Report a manifest that is missing between others or before all."""
        path = manifest_path(self._path, number - 1)
        self._say(AuditCode.MANIFEST_MISSING, path, "is missing, and there are later ones")

    def manifest(self, number: int) -> None:
        path = manifest_path(self._path, number)
        try:
            manifest = read_manifest(self._path, number, self._disk)
        except PipelineError as error:
            _refuse(error)
            self._say(AuditCode.MANIFEST_DAMAGED, path, error.sentence.removeprefix(f"{path} "))
            return
        if self.state.archive_id and manifest.archive_id != self.state.archive_id:
            what = f"is of archive {manifest.archive_id}, this is archive {self.state.archive_id}"
            self._say(AuditCode.MANIFEST_FOREIGN, path, what)
            return
        self._look_at(path, manifest)
        self.state.apply(manifest)

    def _look_at(self, path: str, manifest: Manifest) -> None:
        unbalanced = unbalanced_partition(manifest) if manifest.kind == "batch" else None
        if unbalanced is not None:
            self._say(AuditCode.MANIFEST_BALANCE, path, f"does not add up for {unbalanced}")
        for name in manifest.removed:
            if name not in self.state.files and self._is_whole:
                self._say(AuditCode.MANIFEST_REMOVES, path, f"removes {name}, which was not there")
        for entry in manifest.added:
            if entry.path in self.state.files and entry.path not in manifest.removed:
                self._say(AuditCode.MANIFEST_ADDS, path, f"adds {entry.path}, which was there")

    def snapshot(self, number: int) -> None:
        """Compare a snapshot with the state that the manifests lead to."""
        path = snapshot_path(self._path, number)
        try:
            snapshot = msgspec.json.decode(unseal(self._disk.read_bytes(path)), type=Snapshot)
        except (ManifestError, msgspec.DecodeError, StorageError) as error:
            what = f"cannot be used: it {error}"
            self._findings.add(AuditCode.SNAPSHOT_DAMAGED.finding(path, what))
            return
        if self._is_whole and _facts(snapshot) != _facts(self.state.snapshot()):
            what = "contradicts the manifests up to it"
            self._findings.add(AuditCode.SNAPSHOT_DIFFERS.finding(path, what))

    def _say(self, code: AuditCode, path: str, what: str) -> None:
        self._is_whole = self._is_whole and code not in _LEFT_OUT
        self._findings.add(code.finding(path, what))


def _archive_id(path: str, findings: Findings) -> str | None:
    try:
        mark = read_mark(path, RealFileSystem())
    except PipelineError as error:
        _refuse(error)
        name = f"{path}/{MARK_NAME}"
        what = error.sentence.removeprefix(f"{name} ")
        findings.add(AuditCode.ARCHIVE_MARK.finding(name, what))
        return None
    if mark is None:
        if not RealFileSystem().exists(f"{path}/{MANIFESTS}"):
            raise PipelineError(
                f"{path} is not an archive: it has neither {MARK_NAME} nor manifests",
                ExitCode.USAGE,
            )
        findings.add(AuditCode.ARCHIVE_MARK.finding(f"{path}/{MARK_NAME}", "is missing"))
        return None
    return mark.archive_id


def _refuse(error: PipelineError) -> None:
    """Raise an error if nothing is wrong with the file: this archive cannot be judged here."""
    cause = error.__cause__
    if isinstance(cause, OtherLayoutError):
        raise error
    if isinstance(cause, StorageError) and is_forbidden(cause):
        raise PipelineError(f"cannot {cause}; {WHO_MAY_READ}") from cause


def _facts(snapshot: Snapshot) -> tuple[object, ...]:
    """Return the contents of a snapshot in one order, so that two can be compared."""
    return (
        snapshot.number,
        {entry.path: entry for entry in snapshot.files},
        set(snapshot.ranges),
        set(snapshot.holes),
        snapshot.jobs,
        set(snapshot.waiting),
        snapshot.json_schemas,
        snapshot.topic_ids,
    )


def _numbers(path: str, *, is_snapshot: bool) -> Iterator[int]:
    disk = RealFileSystem()
    directory = f"{path}/{MANIFESTS}"
    if not disk.exists(directory):
        return
    try:
        names = disk.list(directory)
    except StorageError as error:
        advice = f"; {WHO_MAY_READ}" if is_forbidden(error) else ""
        raise PipelineError(f"cannot {error}{advice}") from error
    for name in names:
        matched = NAME_PATTERN.fullmatch(name)
        if matched is not None and bool(matched[2]) == is_snapshot:
            yield int(matched[1])


def _files_below(root: str, folder: str) -> Iterator[str]:
    """Yield paths of files below a folder of the archive, in order."""
    disk = RealFileSystem()
    if not disk.exists(f"{root}/{folder}"):
        return
    for name in sorted(disk.list(f"{root}/{folder}")):
        path = f"{folder}/{name}"
        if disk.is_directory(f"{root}/{path}"):
            yield from _files_below(root, path)
        else:
            yield path
