"""A folder through which the driver and the tasks of a restore talk while they work: how many rows
are committed, and whether to stop. Nothing in it outlives a run.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError

BOARD = "board"  # its name below the directory of a checkpoint
_STOP = "stop"


class TaskBoard:
    """On a disk that driver and workers see."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)

    def clear(self) -> None:
        """Forget the last run. Raises PipelineError."""
        try:
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory.mkdir(parents=True)
        except OSError as error:
            raise PipelineError(
                f"{self.directory} cannot be written: {error.strerror or error}"
            ) from error

    def stop(self) -> None:
        """Let all tasks end after their current rows."""
        (self.directory / _STOP).touch()

    @property
    def is_stopped(self) -> bool:
        """Whether tasks should end."""
        return (self.directory / _STOP).exists()

    def note(self, partition: TopicPartition, rows: int) -> None:
        """Note how many rows this run has committed in a target. Raises OSError with the file."""
        path = self.directory / f"{partition}"
        try:
            path.write_text(f"{rows:020}")
        except OSError as error:  # a full disk does not say which file it was
            raise OSError(error.errno, error.strerror, str(path)) from error

    def rows(self) -> int:
        """Return how many rows this run has committed so far."""
        texts = (path.read_text() for path in self.directory.glob("*-*"))
        return sum(int(text) for text in texts if text)  # empty while it is written
