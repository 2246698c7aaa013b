"""`cleaner-offset-checkpoint` of each data directory: how far the cleaner came in each log.

Law: a log carries its own offset, which goes back when the log is cut; the files follow. An entry
stays if a log is not compacted any more, or its settings are not known yet, because nothing else
says why offsets are missing.
"""

from __future__ import annotations

import logging
from functools import partial

from kbroker.log.directories.log_directory import LogDirectory
from kbroker.log.disk.checkpoint import CheckpointError
from kbroker.log.disk.file_system import StorageError
from kbroker.log.disk.format import CLEANER_OFFSET_CHECKPOINT_FILE
from kbroker.log.disk.write_runner import WriteRunner
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.partition.log import Log
from kbroker.model import TopicPartition

_log = logging.getLogger(__name__)


class CleanerCheckpoints:
    """The checkpoint files of all data directories. Owned by the event loop."""

    def __init__(self, logs: LogManager, run_write: WriteRunner) -> None:
        self._logs = logs
        self._run_write = run_write
        self._saved: dict[str, dict[TopicPartition, int]] = {}

    def load(self) -> None:
        """Tell every log how far it was cleaned. A file that cannot be read counts as empty."""
        for directory in self._online():
            try:
                offsets = directory.read_offsets(CLEANER_OFFSET_CHECKPOINT_FILE)
            except (CheckpointError, StorageError) as error:
                _log.warning("Ignoring a checkpoint file that cannot be read: %s", error)
                offsets = {}
            self._saved[directory.path] = offsets
            for log in self._logs_in(directory):
                log.offsets.cleaned_to(offsets.get(log.topic_partition))

    def save(self) -> None:
        """Write the files of directories where something changed."""
        cleaned: dict[str, dict[TopicPartition, int]] = {}
        for log in self._logs.all_logs():  # of thousands, few are compacted
            if (end_offset := log.offsets.cleaned_end_offset) is not None:
                home = log.directory.rpartition("/")[0]
                cleaned.setdefault(home, {})[log.topic_partition] = end_offset
        for directory in self._online():
            offsets = cleaned.get(directory.path, {})
            if offsets == self._saved.get(directory.path, {}):
                continue
            self._saved[directory.path] = offsets
            write = partial(directory.write_offsets, CLEANER_OFFSET_CHECKPOINT_FILE, offsets)
            self._run_write(write, partial(self._written, directory.path))

    def _written(self, path: str, error: StorageError | None) -> None:
        if error is not None:
            self._logs.fail_directory(path, error)

    def _online(self) -> list[LogDirectory]:
        return [d for d in self._logs.directories() if d.failure is None]

    def _logs_in(self, directory: LogDirectory) -> list[Log]:
        home = directory.path
        return [log for log in self._logs.all_logs() if log.directory.rpartition("/")[0] == home]
