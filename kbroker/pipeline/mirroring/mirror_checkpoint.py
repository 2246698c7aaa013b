"""The file that a mirror keeps beside its identity: the topics that it writes into, and the
settings that each was to have when it was changed last.

Law: a topic is noted before the first record is written into it, so that its later content may be
the mirror's own. How far the mirror is, is not here: the target keeps that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from kbroker.pipeline.restoring.task_board import BOARD
from kbroker.pipeline.spark_job.checkpoint_note import CheckpointNote

_FILE = "kbroker-mirror.json"
_ADVICE = "put it back from a copy of the checkpoint, or begin with a new --checkpoint"


class _Content(msgspec.Struct, frozen=True, kw_only=True):
    topics: tuple[str, ...] = ()
    settings: dict[str, dict[str, str]] = {}


class MirrorCheckpoint:
    """Below the directory of the job's checkpoint. Raises PipelineError if the disk refuses."""

    def __init__(self, directory: str | Path) -> None:
        self.board = Path(directory) / BOARD
        self._note = CheckpointNote(Path(directory) / _FILE, _Content(), _ADVICE)

    def topics(self) -> frozenset[str]:
        """The topics that this mirror writes into."""
        return frozenset(self._note.read().topics)

    def settings(self) -> Mapping[str, Mapping[str, str]]:
        """The settings that were wanted last, by topic."""
        return self._note.read().settings

    def claim(self, topics: Iterable[str]) -> None:
        """Note further topics before they are written."""
        self._note.change(topics=tuple(sorted({*topics, *self.topics()})))

    def note_settings(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        """Note that the topics have these settings."""
        new = {name: dict(each) for name, each in settings.items()}
        self._note.change(settings={**self.settings(), **new})
