"""Log directories as a stream: how far it may go, and the splits between two offsets.

Law: offsets that were given once are given again: they are read even while a broker that was
restarted does not mention them yet. Records of another topic of the same name are not read in their
place: the topic id is remembered while the stream lives; Spark's checkpoint has offsets alone. No
Spark here.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from uuid import UUID

from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.logdir.directory.log_catalog import LogCatalog, ReadableLog, look_again
from kbroker.pipeline.logdir.directory.partition_log import Disk, reaching, written_end
from kbroker.pipeline.logdir.directory.transaction_scan import scan_transactions
from kbroker.pipeline.logdir.planning.batch_query import Splits, planned
from kbroker.pipeline.logdir.planning.read_ranges import (
    GO_ON,
    available,
    check_same_topic,
    check_there,
    check_topics_found,
    edge_offset,
)
from kbroker.pipeline.logdir.planning.source_options import SourceOptions
from kbroker.pipeline.spark_job.offsets import OffsetRange, Offsets


class LogStream:
    """Owned by the thread of a query's planner."""

    def __init__(self, wanted: SourceOptions, disk: Disk) -> None:
        self._wanted = wanted
        self._disk = disk
        self._catalog = LogCatalog(disk, wanted.paths, wanted.selection.wants)
        self._topic_ids: dict[TopicPartition, UUID | None] = {}
        self._initial: Offsets | None = None
        self._position: Offsets | None = None  # where the query stands, once that is known
        self._target: Offsets | None = None

    def initial(self) -> Offsets:
        """Decide once where a query begins that never ran. Raises PipelineError."""
        if self._initial is None:
            logs = self._logs()
            wanted = self._wanted
            topics = {topic for topic, _ in logs}
            check_topics_found(self._disk.file_system, wanted.selection, topics, wanted.paths)
            starting = wanted.starting_offsets
            if isinstance(starting, Mapping):
                check_there(logs, starting, fails_on_data_loss=wanted.fails_on_data_loss)
            self._initial = {
                partition: edge_offset(
                    log,
                    starting.get(partition, "earliest")
                    if isinstance(starting, Mapping)
                    else starting,
                )
                for partition, log in logs.items()
            }
        return self._initial

    def latest(self) -> Offsets:
        """The end of the next batch, from the query's position on. Raises PipelineError."""
        return self.latest_from(self._position or self.initial(), self._wanted.max_records)

    def latest_from(self, start: Offsets, max_records: int | None) -> Offsets:
        """The end of a batch that begins at `start`. Raises PipelineError."""
        logs = self._logs()
        check_there(logs, start, fails_on_data_loss=self._wanted.fails_on_data_loss)
        if self._target is not None:
            logs = {each: log for each, log in logs.items() if each in self._target}
        ranges = {each: self._ahead(log, start) for each, log in logs.items()}
        return _shared_out(ranges, max_records)

    def fix_target(self) -> None:
        """From now on, go no further than the present ends."""
        self._target = {partition: log.end_offset for partition, log in self._logs().items()}

    def end(self) -> Offsets:
        return {partition: log.end_offset for partition, log in self._logs().items()}

    def plan(self, start: Offsets, end: Offsets) -> Splits:
        """Plan the splits from `start` to `end`. Raises PipelineError."""
        self._position = dict(end)
        if start == end:
            return []

        def look() -> Splits:
            logs = self._logs()
            check_there(logs, end, fails_on_data_loss=self._wanted.fails_on_data_loss)
            ranges = [
                self._between(logs[partition], start, end_offset)
                for partition, end_offset in sorted(end.items())
                if partition in logs
            ]
            return planned(self._disk, ranges, self._wanted.splits)

        return look_again(look)

    def _logs(self) -> Mapping[TopicPartition, ReadableLog]:
        logs = self._catalog.by_partition(is_committed=self._wanted.is_committed)
        for partition, log in logs.items():
            known = self._topic_ids.get(partition)
            if self._wanted.fails_on_data_loss:
                check_same_topic(log.log, known)
            self._topic_ids[partition] = log.log.topic_id or known
        return logs

    def _ahead(self, log: ReadableLog, start: Offsets) -> OffsetRange:
        """The offsets from the query's position in a log to its end; never back."""
        partition = log.log.topic_partition
        position = start.get(partition, log.log.start_offset)
        end_offset = log.end_offset
        if self._target is not None:
            end_offset = min(end_offset, self._target[partition])
        if end_offset >= position:
            return OffsetRange(position, end_offset)
        if self._target is not None or written_end(self._disk.file_system, log.log) >= position:
            return OffsetRange(position, position)
        if self._wanted.fails_on_data_loss:
            raise PipelineError(
                f"{partition} ends with offset {end_offset} in {log.log.directory}, and was read "
                f"up to {position} before: it lost records, or was deleted and created again; "
                f"{GO_ON}"
            )
        return OffsetRange(end_offset, end_offset)

    def _between(
        self, log: ReadableLog, start: Offsets, end_offset: int
    ) -> tuple[ReadableLog, OffsetRange]:
        first = start.get(log.log.topic_partition, log.log.start_offset)
        if first >= end_offset:
            return log, OffsetRange(end_offset, end_offset)
        log = self._reaching(log, end_offset)
        wanted = OffsetRange(first, end_offset)
        fails = self._wanted.fails_on_data_loss
        return log, available(log, wanted, fails_on_data_loss=fails)

    def _reaching(self, log: ReadableLog, end_offset: int) -> ReadableLog:
        """The log up to an offset that was readable before, if it still has it."""
        if log.end_offset >= end_offset:
            return log
        file_system = self._disk.file_system
        longer = reaching(file_system, log.log, end_offset)
        state = log.transactions
        # To the end of the files: the markers that let the offset be read may come after it.
        known = None if state is None else scan_transactions(file_system, longer, state)
        return ReadableLog(longer, known)


def _shared_out(
    ranges: Mapping[TopicPartition, OffsetRange], max_records: int | None
) -> dict[TopicPartition, int]:
    """Share `max_records` out by backlog, one to each partition at least; return the ends."""
    total = sum(each.count for each in ranges.values())
    if max_records is None or total <= max_records:
        return {partition: each.end for partition, each in ranges.items()}
    ends = {}
    for partition, each in ranges.items():
        share = max_records * each.count / total
        ends[partition] = each.start + (ceil(share) if share < 1 else int(share))
    return ends
