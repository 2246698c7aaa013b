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
from kbroker.model import TopicPartition
from kbroker.pipeline.restoring.task_board import BOARD
from kbroker.pipeline.restoring.topics.offset_map import OffsetMap
from kbroker.pipeline.spark_job.checkpoint_note import CheckpointNote

MAPS = "offsets"
_FILE = "kbroker-restore.json"
_ADVICE = "put it back from a copy of the checkpoint"


class _Content(msgspec.Struct, frozen=True, kw_only=True):
    topics: dict[str, UUID] = {}  # of the target, with their ids
    transactions: dict[str, int] = {}  # partition -> how many, once a run has reached the end


class RestoreCheckpoint:
    """Below the directory of the job's checkpoint. Raises PipelineError if the disk refuses."""

    def __init__(self, directory: str | Path) -> None:
        self.maps = Path(directory) / MAPS
        self.board = Path(directory) / BOARD
        self._note = CheckpointNote(Path(directory) / _FILE, _Content(), _ADVICE)

    def topics(self) -> dict[str, UUID]:
        """Return the topics that this restore writes into, with their ids (ZERO_UUID: unknown)."""
        return self._note.read().topics

    def claim(self, topics: Mapping[str, UUID]) -> None:
        """Note further topics before they are written."""
        self._note.change(topics=dict(sorted({**topics, **self.topics()}.items())))

    def reached(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """Return where in the source to go on after a run that has reached the end, with the number
        of its last transaction, as the group has it; NOTHING if there was no transaction. Raises
        PipelineError if the offset map lacks some of them.
        """
        transactions = self._note.read().transactions
        found: dict[TopicPartition, Position] = {}
        for partition in partitions:
            number = transactions.get(str(partition), 0)
            lines = OffsetMap(self.maps, partition).committed(number)
            found[partition] = Position(lines[-1].next_offset, str(number)) if lines else NOTHING
        return found

    def note_end(self, partitions: list[TopicPartition]) -> None:
        """Note that everything for these partitions is written."""
        ends = {str(each): OffsetMap(self.maps, each).last() for each in partitions}
        numbers = {name: line.number for name, line in ends.items() if line is not None}
        self._note.change(transactions={**self._note.read().transactions, **numbers})
