"""Notices records that took the places of archived ones.

Offsets alone do not show it: after an unclean leader election a partition may have lost its tail
and grown beyond it again. Every leader has an epoch, and writes after what it found: so an archived
record is still there as long as its epoch, or an older one, ends after it (KIP-101, KIP-320; a Java
consumer says LogTruncationException). The archive stores an epoch that none of its records is
above: that of the leader before they were read.

A leader that lost records and stayed the leader keeps its epoch, as a lone broker may after a power
loss; and old formats have no epochs. So a run also checks whether the newest archived record still
has its time at the source.

The epochs of a batch are asked for before it is read and checked against the source afterwards, so
a change of leader meanwhile is noticed as well: the old leader's records of when the batch began
have to be there still when it is published.

Law: a missing answer proves nothing; only an answer that contradicts the archive does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from kbroker.errors import KafkaError
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState
from kbroker.pipeline.archiving.manifests.manifest import NO_HOUR, EpochNote, FileEntry
from kbroker.pipeline.cluster_errors import while_reachable
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job.offsets import Ranges
from kbroker.record.legacy_record import any_records
from kbroker.record.record_batch import LOG_APPEND_TIME, BatchHeader

Epochs = Mapping[TopicPartition, int]


class SourceIdentity(Protocol):
    """Answers questions about the source. Partitions of which nothing is known are left out."""

    def cluster_id(self) -> str | None:
        """Return the id of the cluster, None if none is known; raises PipelineError."""
        ...

    def leader_epochs(self, partitions: Iterable[TopicPartition]) -> Epochs:
        """Return the newest epoch of each partition; raises PipelineError."""
        ...

    def end_offsets(self, epochs: Epochs) -> Mapping[TopicPartition, int]:
        """Return where the records up to an epoch end; raises PipelineError."""
        ...

    def record_times(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return Unix ms (-1: it has none) of the record at an offset; left out if there is none,
        as after compaction. Raises PipelineError.
        """
        ...


def replaced(
    known: Mapping[TopicPartition, EpochNote], identity: SourceIdentity
) -> dict[TopicPartition, int]:
    """Return the partitions that lost archived records at the source, and from which offset on."""
    if not known:
        return {}
    ends = identity.end_offsets({each: entry.leader_epoch for each, entry in known.items()})
    return {each: end for each, end in sorted(ends.items()) if end < known[each].end_offset}


def replaced_sentence(entry: EpochNote, path: str, diverged_offset: int) -> str:
    """Return a sentence: from which offset the source has other records than the archive."""
    return (
        f"{entry.topic_partition} has other records than the archive {path} from offset "
        f"{diverged_offset} on, which goes up to {entry.end_offset}: the source lost those of "
        f"leader epoch {entry.leader_epoch} (an unclean leader election, or a log that was cut) "
        "and wrote others; --allow-loss keeps the archived ones and continues after them, another "
        "archive starts from the beginning"
    )


def kept_sentence(entry: EpochNote) -> str:
    """Return the same sentence if the loss is allowed."""
    return (
        f"{entry.topic_partition}: the archive keeps records from offset {entry.replaced_from} on "
        "that the source has replaced with others"
    )


def time_at(header: BatchHeader, batch: bytes | memoryview, offset: int) -> int | None:
    """Return Unix ms of the record at an offset, -1: no time; None if it cannot be read there."""
    if header.is_control or offset > header.last_offset:
        return None
    try:
        record = next((each for each in any_records(batch) if each.offset == offset), None)
    except KafkaError:
        return None
    if record is None:
        return None
    if header.timestamp_type == LOG_APPEND_TIME:
        return header.max_timestamp
    return record.timestamp


class ArchivedRecord(NamedTuple):
    """A record of the archive: its place, and its time in Unix ms, -1 if it has none."""

    offset: int
    timestamp_ms: int


def newest_records(
    state: ArchiveState, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, ArchivedRecord]:
    """Return the last record of each partition; those of unreadable files are left out."""
    newest: dict[TopicPartition, FileEntry] = {}
    for entry in state.files.values():
        place = entry.topic_partition
        if entry.kind != "data" or place not in partitions:
            continue
        if place not in newest or newest[place].last_offset < entry.last_offset:
            newest[place] = entry
    found = {place: _last_record(state.path, entry) for place, entry in newest.items()}
    return {place: record for place, record in sorted(found.items()) if record is not None}


def other_records(
    archived: Mapping[TopicPartition, ArchivedRecord], identity: SourceIdentity
) -> dict[TopicPartition, int]:
    """Return the partitions where the source has another record in that place, with its time."""
    if not archived:
        return {}
    times = identity.record_times({each: record.offset for each, record in archived.items()})
    return {each: at for each, at in sorted(times.items()) if at != archived[each].timestamp_ms}


def other_record_sentence(
    partition: TopicPartition, archived: ArchivedRecord, path: str, timestamp_ms: int
) -> str:
    """Return a sentence: which archived record is another one at the source."""
    return (
        f"{partition} has another record at offset {archived.offset} than the archive {path}: its "
        f"time is {timestamp_ms}, not {archived.timestamp_ms}; the log was cut and written to "
        f"again, or it is another topic's; --allow-loss keeps the archived records and continues "
        f"after them, another archive starts from the beginning"
    )


def _last_record(path: str, entry: FileEntry) -> ArchivedRecord | None:
    if entry.hour == NO_HOUR:
        return None  # its time is missing, or one that is not kept exactly
    try:
        with pq.ParquetFile(f"{path}/{entry.path}") as file:
            group = file.read_row_group(file.num_row_groups - 1, columns=["offset", "timestamp"])
    except (OSError, pa.ArrowException):
        return None  # an audit reports it
    offset, time_us = (
        group.column(name)[-1].cast(pa.int64()).as_py() for name in ("offset", "timestamp")
    )
    return ArchivedRecord(offset, time_us // 1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEpochs:
    """The epochs of the partitions of a batch."""

    identity: SourceIdentity
    archive: str
    known: Mapping[TopicPartition, EpochNote]  # as the archive remembers them
    before: Epochs  # of the leaders when the batch began

    @classmethod
    def of(cls, identity: SourceIdentity, state: ArchiveState, ranges: Ranges) -> BatchEpochs:
        """Ask before the batch is read, after its end was chosen."""
        known = state.leader_epochs
        return cls(
            identity=identity,
            archive=state.path,
            known={each: known[each] for each in ranges if each in known},
            before=while_reachable(lambda: identity.leader_epochs(ranges), {}),
        )

    def _answers(self) -> tuple[Epochs, Epochs]:
        lost = replaced(self.known, self.identity)
        return lost, self.identity.end_offsets(self.before) if self.before else {}

    def held_against_source(self, ranges: Ranges, *, allows_loss: bool) -> tuple[EpochNote, ...]:
        """Return the epochs that the archive stores; PipelineError if records were replaced."""
        nothing: tuple[Epochs, Epochs] = ({}, {})
        lost, ends = while_reachable(self._answers, nothing)
        for partition, offset in lost.items():
            if not allows_loss:
                sentence = replaced_sentence(self.known[partition], self.archive, offset)
                raise PipelineError(sentence)
        for partition, end in sorted(ends.items()):
            if end < ranges[partition].end:
                raise PipelineError(
                    f"{partition} lost records from offset {end} on while they were read (an "
                    "unclean leader election, or a log that was cut): nothing of the batch was "
                    "published; run again"
                )
        return tuple(
            EpochNote(
                topic=partition.topic,
                partition=partition.partition,
                leader_epoch=self.before[partition],
                end_offset=ranges[partition].end,
                replaced_from=lost.get(partition, -1),
            )
            for partition in sorted(ends)
        )
