"""A query over log directories that reads a range of each log once: options in, splits out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kbroker.log.disk.file_system import FileSystem
from kbroker.model import TopicPartition
from kbroker.pipeline.logdir.directory.log_catalog import LogCatalog, ReadableLog, look_again
from kbroker.pipeline.logdir.directory.partition_log import Disk
from kbroker.pipeline.logdir.planning.filter_pushdown import Hints
from kbroker.pipeline.logdir.planning.read_ranges import (
    check_there,
    check_topics_found,
    wanted_range,
)
from kbroker.pipeline.logdir.planning.source_options import SourceOptions
from kbroker.pipeline.logdir.planning.split_reading import SplitReading
from kbroker.pipeline.logdir.planning.splits import PlannedTask, SplitOptions, plan, stretch_of
from kbroker.pipeline.logdir.segment_task import ReadOptions
from kbroker.pipeline.spark_job.offsets import OffsetRange

Splits = list[tuple[PlannedTask, ...]]
_DIRECTORY = "directory"


@dataclass(frozen=True, slots=True)
class BatchQuery:
    """Values that can be pickled; `wanted` has its columns."""

    wanted: SourceOptions
    hints: Hints = Hints()  # noqa: RUF009 - a frozen value

    @property
    def reading(self) -> SplitReading:
        return reading_of(self.wanted, self.hints)

    def narrowed(self, hints: Hints) -> BatchQuery:
        return replace(self, hints=hints)

    def plan(self, disk: Disk) -> Splits:
        """Plan the tasks of the query. Raises PipelineError."""
        wanted = self.wanted
        catalog = LogCatalog(disk, wanted.paths, self._wants)
        may_repeat = _DIRECTORY in (wanted.columns or ())

        def look() -> Splits:
            logs = catalog.logs(is_committed=wanted.is_committed, may_repeat=may_repeat)
            self._check_named(disk.file_system, logs)
            return planned(disk, [(log, self._range(log)) for log in logs], self.splits)

        return look_again(look)

    @property
    def splits(self) -> SplitOptions:
        return replace(self.wanted.splits, min_timestamp_ms=self.reading.read.min_timestamp_ms)

    def _wants(self, topic_partition: TopicPartition) -> bool:
        return self.wanted.selection.wants(topic_partition) and self.hints.may_hold(topic_partition)

    def _check_named(self, file_system: FileSystem, logs: Sequence[ReadableLog]) -> None:
        wanted = self.wanted
        found = {log.log.topic_partition: log for log in logs}
        topics = {topic for topic, _ in found}
        check_topics_found(file_system, wanted.selection, topics, wanted.paths, self.hints.topics)
        for offsets in (wanted.starting_offsets, wanted.ending_offsets):
            if isinstance(offsets, Mapping):
                named = {each: 0 for each in offsets if self._wants(each)}
                check_there(found, named, fails_on_data_loss=wanted.fails_on_data_loss)

    def _range(self, log: ReadableLog) -> OffsetRange:
        wanted, hints = self.wanted, self.hints
        found = wanted_range(
            log,
            wanted.starting_offsets,
            wanted.ending_offsets,
            fails_on_data_loss=wanted.fails_on_data_loss,
        )
        start, end = found.start, found.end
        if hints.first_offset is not None:
            start = min(max(start, hints.first_offset), end)
        if hints.last_offset is not None:
            end = max(min(end, hints.last_offset + 1), start)
        return OffsetRange(start, end)


def planned(
    disk: Disk, ranges: Iterable[tuple[ReadableLog, OffsetRange]], splits: SplitOptions
) -> Splits:
    """Plan the splits of these ranges. Raises StorageError, with ENOENT if a segment went."""
    file_system = disk.file_system
    return plan(file_system, [stretch_of(file_system, *each) for each in ranges], splits)


def reading_of(wanted: SourceOptions, hints: Hints = Hints()) -> SplitReading:  # noqa: B008 - frozen
    """Return how splits are read; the times of options and hints both hold."""
    least = (wanted.min_timestamp_ms, hints.min_timestamp_ms)
    most = (wanted.max_timestamp_ms, hints.max_timestamp_ms)
    read = ReadOptions(
        columns=wanted.columns or (),
        includes_control=wanted.includes_control,
        min_timestamp_ms=max((ms for ms in least if ms is not None), default=None),
        max_timestamp_ms=min((ms for ms in most if ms is not None), default=None),
    )
    return SplitReading(
        read=read,
        is_batch_detail=wanted.is_batch_detail,
        skips_damage=wanted.skips_damage,
        fails_on_data_loss=wanted.fails_on_data_loss,
    )
