"""The files that a restore keeps beside its offset maps: the topics it writes into, and how far
runs came that reached the end.

Law: a topic is noted, with its id, before the first record is written into it, so that its later
content may be the restore's own. Once a run has reached the end, the target may forget how far it
was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from uuid import UUID

import msgspec

from kbroker.client.transactional_producer import NOTHING, Position
from kbroker.log.disk.checkpoint import write_atomically
from kbroker.log.disk.file_system import RealFileSystem, StorageError
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.restoring.task_board import BOARD
from kbroker.pipeline.restoring.topics.offset_map import OffsetMap

MAPS = "offsets"
_FILE = "kbroker-restore.json"


class _Content(msgspec.Struct, frozen=True, kw_only=True):
    topics: dict[str, UUID] = {}  # of the target, with their ids
    transactions: dict[str, int] = {}  # partition -> how many, once a run has reached the end


class RestoreCheckpoint:
    """Below the directory of the job's checkpoint. Raises PipelineError if the disk refuses."""

    def __init__(self, directory: str | Path) -> None:
        self.maps = Path(directory) / MAPS
        self.board = Path(directory) / BOARD
        self._path = Path(directory) / _FILE

    def topics(self) -> dict[str, UUID]:
        """Return the topics that this restore writes into, with their ids (ZERO_UUID: unknown)."""
        return self._read().topics

    def claim(self, topics: Mapping[str, UUID]) -> None:
        """Note further topics before they are written."""
        content = self._read()
        both = dict(sorted({**topics, **content.topics}.items()))
        self._write(msgspec.structs.replace(content, topics=both))

    def reached(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """Return where in the source to go on after a run that has reached the end, with the number
        of its last transaction, as the group has it; NOTHING if there was no transaction. Raises
        PipelineError if the offset map lacks some of them.
        """
        transactions = self._read().transactions
        found: dict[TopicPartition, Position] = {}
        for partition in partitions:
            number = transactions.get(str(partition), 0)
            lines = OffsetMap(self.maps, partition).committed(number)
            found[partition] = Position(lines[-1].next_offset, str(number)) if lines else NOTHING
        return found

    def note_end(self, partitions: list[TopicPartition]) -> None:
        """Note that everything for these partitions is written."""
        content = self._read()
        ends = {str(each): OffsetMap(self.maps, each).last() for each in partitions}
        numbers = {name: line.number for name, line in ends.items() if line is not None}
        transactions = {**content.transactions, **numbers}
        self._write(msgspec.structs.replace(content, transactions=transactions))

    def _read(self) -> _Content:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Content)
        except FileNotFoundError:
            return _Content()
        except (OSError, msgspec.DecodeError) as error:
            raise PipelineError(
                f"{self._path} cannot be read ({error}): put it back from a copy of the checkpoint"
            ) from error

    def _write(self, content: _Content) -> None:
        try:
            text = msgspec.json.encode(content).decode()
            write_atomically(RealFileSystem(), str(self._path), text)
        except StorageError as error:
            raise PipelineError(f"{self._path} cannot be written: {error}") from error
