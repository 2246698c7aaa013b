"""The offset map of one partition: a file to which a restore adds a line before each commit.

Law: the line of a transaction is on the disk before the transaction is committed, and the number of
the last line that counts is committed with it. So the next run drops a line without its
transaction, and no transaction lacks its line.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from fastcrc.crc32 import iscsi as crc32c

from kbroker.log.disk.file_system import RealFileSystem, StorageError
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.restoring.topics.offset_runs import OffsetRun

_LONGEST = 220  # of a topic's name in that of a file: a disk takes 255 bytes


class MapLine(msgspec.Struct, frozen=True, kw_only=True):
    """The records that one transaction wrote."""

    number: int  # of the transaction, from 1 on
    next_offset: int  # of the source: where the next transaction begins
    records: int
    runs: tuple[OffsetRun, ...]


class OffsetMap:
    """Owned by the task that writes the partition; others may read the file. Raises PipelineError
    if the disk refuses, or if the file is not what a restore wrote.
    """

    def __init__(self, directory: str | Path, partition: TopicPartition) -> None:
        """`partition` is that of the target."""
        topic, number = partition
        if len(topic) > _LONGEST:
            topic = f"{topic[:_LONGEST]}-{crc32c(topic.encode()):08x}"
        self.path = Path(directory) / f"{topic}-{number}.jsonl"

    def lines(self, last_number: int | None = None) -> list[MapLine]:
        """Return the lines up to a transaction, or all."""
        found = [line for line, _ in self._read()]
        return [line for line in found if last_number is None or line.number <= last_number]

    def committed(self, number: int) -> list[MapLine]:
        """Return the lines of so many transactions. Raises PipelineError if some are missing."""
        found = self.lines(number)
        if len(found) != number:
            raise self._lacking(len(found), number)
        return found

    def runs(self, last_number: int | None = None) -> list[OffsetRun]:
        """Return the runs of all lines up to a transaction."""
        return [run for line in self.lines(last_number) for run in line.runs]

    def last(self) -> MapLine | None:
        """Return the newest line, of a transaction that may not be committed."""
        lines = self.lines()
        return lines[-1] if lines else None

    def go_on_after(self, number: int, *, is_confirmed: bool = True) -> None:
        """Drop the line above `number`, of a transaction that was not committed. `is_confirmed`:
        the target named the number, not this map alone.
        """
        read = self._read()
        kept = [end for line, end in read if line.number <= number]
        if len(kept) != number:
            raise self._lacking(len(kept), number)
        if len(read) > number + int(is_confirmed):
            raise PipelineError(
                f"{self.path} has {len(read)} transactions, and the target knows of {number}: it "
                "has forgotten how far the restore was (offsets.retention.minutes), or was put "
                "back from an older copy; begin with a new --checkpoint and other topics"
            )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                file.truncate(kept[-1] if kept else 0)
                os.fsync(file.fileno())
            for directory in (self.path.parent, self.path.parent.parent):
                RealFileSystem().sync_directory(str(directory))  # they may be new
        except (OSError, StorageError) as error:
            raise self._refused(error) from error

    def add(self, number: int, next_offset: int, runs: Sequence[OffsetRun]) -> None:
        """Write down where the records of a transaction are, before it is committed."""
        line = MapLine(
            number=number,
            next_offset=next_offset,
            records=sum(run.records for run in runs),
            runs=tuple(runs),
        )
        try:
            with self.path.open("ab") as file:
                file.write(msgspec.json.encode(line) + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise self._refused(error) from error

    def _read(self) -> list[tuple[MapLine, int]]:
        """Return lines with the positions of their ends, without a torn one at the end."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._refused(error) from error
        found: list[tuple[MapLine, int]] = []
        end = 0
        for text in content.splitlines(keepends=True):
            if not text.endswith(b"\n"):
                break
            end += len(text)
            line = self._parsed(text)
            if line.number != len(found) + 1:
                raise self._damaged(f"line {len(found) + 1} is of transaction {line.number}")
            found.append((line, end))
        return found

    def _parsed(self, text: bytes) -> MapLine:
        try:
            return msgspec.json.decode(text, type=MapLine)
        except msgspec.DecodeError as error:
            raise self._damaged(str(error)) from error

    def _lacking(self, found: int, number: int) -> PipelineError:
        return PipelineError(
            f"{self.path} has {found} of the {number} transactions that are committed: put it back "
            "from a copy of the checkpoint"
        )

    def _damaged(self, reason: str) -> PipelineError:
        return PipelineError(
            f"{self.path} is damaged ({reason}): put it back from a copy of the checkpoint"
        )

    def _refused(self, error: OSError | StorageError) -> PipelineError:
        reason = error.strerror if isinstance(error, OSError) else None
        return PipelineError(
            f"the offset map {self.path} cannot be written or read: {reason or error}"
        )
