"""The data directory that a restore makes: its owner, its contents meanwhile, and how it becomes
complete.

    DIR/kbroker-restore/restore.json             what is to be made; see `restore_note`
                        <topic>-<partition>/     one log, as a data directory of its own: so several
                                                 processes write at once, each its logs
    DIR/<topic>-<partition>/                     at the end; with checkpoints, meta.properties, tree

Law: while the folder is there, no broker starts over the directory (`unfinished_restore`). It is
removed when all else is there and on the disk, its note first: a run that is killed while it
removes the folder finds that nothing else is left to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, auto
from typing import Final

import msgspec

from kbroker.client.wall_clock import unix_now_ms
from kbroker.errors import Trouble
from kbroker.log.directories.unfinished_restore import NOTE_FILE, RESTORE_FOLDER
from kbroker.log.disk.checkpoint import (
    CheckpointError,
    MetaProperties,
    read_meta_properties,
    write_atomically,
    write_clean_shutdown,
    write_meta_properties,
    write_offset_checkpoint,
)
from kbroker.log.disk.file_system import FileSystem, RealFileSystem, StorageError
from kbroker.log.disk.format import (
    LOCK_FILE,
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
)
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.restoring.logs.restore_note import BROKER_ID, RestoreNote, cluster_id_of

_TREE: Final = "tree"
_OF_NOBODY: Final = frozenset({LOCK_FILE, RESTORE_FOLDER, "lost+found"})


class Stage(Enum):
    """How far the restore of a job is."""

    NEW = auto()
    BEGUN = auto()
    WHOLE = auto()


class RestoredDirectory:
    """One directory; refusals are PipelineErrors with a sentence."""

    def __init__(self, path: str, file_system: FileSystem | None = None) -> None:
        """Take the directory in `path`, an absolute path."""
        self.path = path
        self._folder = f"{path}/{RESTORE_FOLDER}"
        self._file_system = file_system or RealFileSystem()

    def staging(self, target: TopicPartition) -> str:
        """Return the data directory in which the log of a partition grows."""
        return f"{self._folder}/{target}"

    def stage(self, job_id: str | None) -> Stage:
        """Return how far this job is; None: a job that has not begun anywhere. Raises PipelineError
        if the directory belongs to something else.
        """
        with self._sentences():
            note = self._read_note()
            if note is not None:
                if note.job_id == job_id:
                    return Stage.BEGUN
                raise PipelineError(
                    f"{self.path} is where another restore is not at its end: go on with it, "
                    f"`{note.command}`, or remove {self.path} where its checkpoint is gone, or "
                    "give --data another directory",
                    trouble=Trouble.RESTORE,
                )
            others = self._others()
            if not others:
                return Stage.NEW
            meta = read_meta_properties(self._file_system, self.path)
            if job_id and meta is not None and meta.cluster_id == cluster_id_of(job_id):
                return Stage.WHOLE
        raise self._not_ours(others[0])

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep brokers and other restores away; makes the directory if it is missing."""
        with self._sentences():
            self._file_system.make_directory(self.path)
            lock = self._file_system.lock(f"{self.path}/{LOCK_FILE}")
        if lock is None:
            raise self._in_use()
        try:
            yield
        finally:
            lock.release()

    def begin(self, note: RestoreNote) -> None:
        """Make the directory this restore's."""
        with self._sentences():
            self._file_system.make_directory(self._folder)
            text = msgspec.json.encode(note).decode()
            write_atomically(self._file_system, f"{self._folder}/{NOTE_FILE}", text)
            self._file_system.sync_directory(self.path)

    def note(self) -> RestoreNote:
        """Return what was noted when the restore began."""
        with self._sentences():
            note = self._read_note()
        assert note is not None, "it has begun"
        return note

    def finish(self, note: RestoreNote, write_tree: Callable[[str], None]) -> None:
        """Turn the directory, all logs written, into that of a cleanly stopped broker.

        `write_tree` writes the metadata files into an empty directory.
        """
        ends = {target: log.end_offset for _, log, target in note.logs()}
        with self._sentences():
            self._place_tree(write_tree)
            for target in ends:
                self._place(target)
            self._say_whose(cluster_id_of(note.job_id), ends)
            self._file_system.unlink(f"{self._folder}/{NOTE_FILE}")
            self._file_system.sync_directory(self._folder)
        self.clear()

    def clear(self) -> None:
        """Remove the folder, once nothing in it is needed."""
        with self._sentences():
            self._file_system.remove_tree(self._folder)
            self._file_system.sync_directory(self.path)

    def _place_tree(self, write_tree: Callable[[str], None]) -> None:
        home = f"{self._folder}/{_TREE}"
        self._file_system.remove_tree(home)
        self._file_system.make_directory(home)
        write_tree(home)
        for name in self._file_system.list(home):
            self._file_system.rename(f"{home}/{name}", f"{self.path}/{name}")

    def _place(self, target: TopicPartition) -> None:
        grown = f"{self.staging(target)}/{target}"
        if self._file_system.exists(grown):
            self._file_system.rename(grown, f"{self.path}/{target}")
        elif not self._file_system.exists(f"{self.path}/{target}"):  # no earlier run has placed it
            raise PipelineError(f"{grown} is gone: remove {self.staging(target)}, and run again")

    def _say_whose(self, cluster_id: str, ends: Mapping[TopicPartition, int]) -> None:
        for file in (RECOVERY_POINT_CHECKPOINT_FILE, REPLICATION_OFFSET_CHECKPOINT_FILE):
            write_offset_checkpoint(self._file_system, f"{self.path}/{file}", ends)
        meta = MetaProperties(0, cluster_id, BROKER_ID)
        write_meta_properties(self._file_system, self.path, meta, unix_now_ms())
        write_clean_shutdown(self._file_system, self.path)  # syncs the new names, too

    def _read_note(self) -> RestoreNote | None:
        path = f"{self._folder}/{NOTE_FILE}"
        if not self._file_system.exists(path):
            return None
        try:
            return msgspec.json.decode(self._file_system.read_bytes(path), type=RestoreNote)
        except msgspec.DecodeError as error:
            raise PipelineError(
                f"{path} is damaged ({error}): remove {self.path}, and restore again with a new "
                "--checkpoint"
            ) from error

    def _others(self) -> list[str]:
        """List names in the directory that are not of a restore that has just begun."""
        if not self._file_system.exists(self.path):
            return []
        return [name for name in self._file_system.list(self.path) if name not in _OF_NOBODY]

    def _not_ours(self, name: str) -> PipelineError:
        lock_file = f"{self.path}/{LOCK_FILE}"
        with self._sentences():
            if self._file_system.exists(lock_file):
                lock = self._file_system.lock(lock_file)
                if lock is None:
                    return self._in_use()
                lock.release()
        return PipelineError(
            f"{self.path} is not empty (it has {name}): a restore makes a data directory of its "
            "own; give --data a new or an empty directory"
        )

    def _in_use(self) -> PipelineError:
        return PipelineError(
            f"{self.path} is in use by a broker or another restore: stop that one first, or give "
            "--data another directory",
            trouble=Trouble.DIRECTORY_IN_USE,
        )

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except (StorageError, CheckpointError) as error:
            raise PipelineError(f"{self.path} cannot be used: {error}; run again") from error
