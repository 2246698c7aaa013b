"""A small file of a job's own below its checkpoint: JSON, written whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from kbroker.log.disk.checkpoint import write_atomically
from kbroker.log.disk.file_system import RealFileSystem, StorageError
from kbroker.pipeline.errors import PipelineError

ContentT = TypeVar("ContentT", bound=msgspec.Struct)


class CheckpointNote(Generic[ContentT]):
    """Holds a value like `empty`, which is its content as long as there is no file; `advice` ends
    the sentence about a damaged one. Raises PipelineError if the disk refuses.
    """

    def __init__(self, path: Path, empty: ContentT, advice: str) -> None:
        self._path, self._empty, self._advice = path, empty, advice

    def read(self) -> ContentT:
        """Return the content; raises PipelineError if the file is damaged."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=type(self._empty))
        except FileNotFoundError:
            return self._empty
        except (OSError, msgspec.DecodeError) as error:
            raise PipelineError(f"{self._path} cannot be read ({error}): {self._advice}") from error

    def change(self, **fields: object) -> None:
        """Replace these fields; nothing is written if they are the same already."""
        before = self.read()
        content = msgspec.structs.replace(before, **fields)
        if content == before:
            return
        try:
            text = msgspec.json.encode(content).decode()
            write_atomically(RealFileSystem(), str(self._path), text)
        except StorageError as error:
            raise PipelineError(f"{self._path} cannot be written: {error}") from error
