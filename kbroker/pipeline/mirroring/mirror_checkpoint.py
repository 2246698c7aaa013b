"""The file that a mirror keeps beside its identity: the topics that it writes into, and the
settings that each was to have when it was changed last.

Law: a topic is noted before the first record is written into it, so that its later content may be
the mirror's own. How far the mirror is, is not here: the target keeps that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from kbroker.log.disk.checkpoint import write_atomically
from kbroker.log.disk.file_system import RealFileSystem, StorageError
from kbroker.pipeline.errors import PipelineError

_FILE, _BOARD = "kbroker-mirror.json", "board"


class _Content(msgspec.Struct, frozen=True, kw_only=True):
    topics: tuple[str, ...] = ()
    settings: dict[str, dict[str, str]] = {}


class MirrorCheckpoint:
    """Below the directory of the job's checkpoint. Raises PipelineError if the disk refuses."""

    def __init__(self, directory: str | Path) -> None:
        self.board = Path(directory) / _BOARD
        self._path = Path(directory) / _FILE

    def topics(self) -> frozenset[str]:
        """The topics that this mirror writes into."""
        return frozenset(self._read().topics)

    def settings(self) -> Mapping[str, Mapping[str, str]]:
        """The settings that were wanted last, by topic."""
        return self._read().settings

    def claim(self, topics: Iterable[str]) -> None:
        """Note further topics before they are written."""
        content = self._read()
        names = tuple(sorted({*topics, *content.topics}))
        self._write(content, msgspec.structs.replace(content, topics=names))

    def note_settings(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        """Note that the topics have these settings."""
        content = self._read()
        known = {**content.settings, **{name: dict(each) for name, each in settings.items()}}
        self._write(content, msgspec.structs.replace(content, settings=known))

    def _read(self) -> _Content:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Content)
        except FileNotFoundError:
            return _Content()
        except (OSError, msgspec.DecodeError) as error:
            raise PipelineError(
                f"{self._path} cannot be read ({error}): put it back from a copy of the "
                "checkpoint, or begin with a new --checkpoint"
            ) from error

    def _write(self, before: _Content, content: _Content) -> None:
        if content == before:
            return
        try:
            text = msgspec.json.encode(content).decode()
            write_atomically(RealFileSystem(), str(self._path), text)
        except StorageError as error:
            raise PipelineError(f"{self._path} cannot be written: {error}") from error
