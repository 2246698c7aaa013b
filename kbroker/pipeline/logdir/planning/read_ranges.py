"""From offsets that were asked for to the range to read of each log, and the words for those that
are gone.

Law: offsets that no longer exist end the query, or are left out with failOnDataLoss=false; other
offsets are never read in their place, because a result would be wrong without a sign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal
from uuid import UUID

from kbroker.inspection.log_paths import topics_below
from kbroker.log.disk.file_system import FileSystem
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError, no_such_topics
from kbroker.pipeline.logdir.directory.log_catalog import ReadableLog, Selection
from kbroker.pipeline.logdir.directory.partition_log import PartitionLog
from kbroker.pipeline.spark_job.offsets import OffsetRange, Offsets

_EARLIEST, _LATEST = -2, -1
GO_ON = "to continue with what is left, set failOnDataLoss=false (the archive job: --allow-loss)"


def edge_offset(log: ReadableLog, wanted: str | int) -> int:
    """Return the offset that a word, -2, -1 or a number stands for."""
    if wanted in ("earliest", _EARLIEST):
        return log.log.start_offset
    if wanted in ("latest", _LATEST):
        return log.end_offset
    return int(wanted)


def wanted_range(
    log: ReadableLog,
    starting: Literal["earliest", "latest"] | Offsets,
    ending: Literal["earliest", "latest"] | Offsets,
    *,
    fails_on_data_loss: bool,
) -> OffsetRange:
    """Return the offsets of a log that a batch query reads. Raises PipelineError."""
    partition = log.log.topic_partition
    if isinstance(ending, Mapping) and partition not in ending:
        return OffsetRange(log.log.start_offset, log.log.start_offset)
    first = starting.get(partition, _EARLIEST) if isinstance(starting, Mapping) else starting
    last = ending[partition] if isinstance(ending, Mapping) else ending
    start, end = edge_offset(log, first), edge_offset(log, last)
    if start > end:
        is_told = first == start or last == end
        if is_told and fails_on_data_loss:
            raise PipelineError(
                f"{partition} is to be read from offset {start} to {end}, and {log.log.directory} "
                f"has {log.log.start_offset} to {log.end_offset}; {GO_ON}"
            )
        return OffsetRange(start, start)
    return available(log, OffsetRange(start, end), fails_on_data_loss=fails_on_data_loss)


def available(log: ReadableLog, wanted: OffsetRange, *, fails_on_data_loss: bool) -> OffsetRange:
    """The part of the range that the log has; PipelineError if that is not all of it."""
    start_offset, end_offset = log.log.start_offset, log.end_offset
    partition, directory = log.log.topic_partition, log.log.directory
    if not wanted.count:
        return wanted
    if fails_on_data_loss and wanted.start < start_offset:
        raise PipelineError(
            f"{partition} begins with offset {start_offset}, and {wanted.start} was to be read "
            f"from {directory}: retention or a deletion of records came first; {GO_ON}"
        )
    if fails_on_data_loss and wanted.end > end_offset:
        raise PipelineError(
            f"{partition} can be read up to offset {end_offset}, and {wanted.end} was to be "
            f"reached in {directory}: it lost records, or was deleted and created again; {GO_ON}"
        )
    start = min(max(wanted.start, start_offset), end_offset)
    return OffsetRange(start, max(min(wanted.end, end_offset), start))


def check_there(
    found: Mapping[TopicPartition, ReadableLog],
    offsets: Mapping[TopicPartition, object],
    *,
    fails_on_data_loss: bool,
) -> None:
    """PipelineError if a partition that offsets name is not there."""
    missing = sorted(set(offsets) - set(found))
    if missing and fails_on_data_loss:
        names = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
        raise PipelineError(f"no directory holds {names}, which the offsets name; {GO_ON}")


def is_of_topic(log: PartitionLog, topic_id: UUID | None) -> bool:
    """False if both ids are known and differ: the topic was deleted and created again."""
    return log.topic_id == topic_id or None in (log.topic_id, topic_id)


def check_same_topic(log: PartitionLog, topic_id: UUID | None) -> None:
    """PipelineError if the log is not of the topic that was read before, `topic_id`."""
    if not is_of_topic(log, topic_id):
        raise PipelineError(
            f"{log.topic_partition} in {log.directory} belongs to another topic than was read "
            f"before: it has the id {log.topic_id}, not {topic_id}; the topic was deleted and "
            f"created again, so start over (a stream with a new checkpoint); {GO_ON}"
        )


def check_topics_found(
    file_system: FileSystem,
    selection: Selection,
    found: AbstractSet[str],
    paths: Sequence[str],
    looked_for: AbstractSet[str] | None = None,
) -> None:
    """PipelineError if a named topic is not there; with `looked_for`, only these names count."""
    named = selection.topics or frozenset()
    missing = sorted(named - found if looked_for is None else (named & looked_for) - found)
    if missing and (selection.partitions is None or not found):
        raise no_such_topics(paths, missing, topics_below(file_system, paths))
    if selection.pattern is not None and not found and looked_for is None:
        raise PipelineError(f"no topic in {', '.join(paths)} matches {selection.pattern}")
