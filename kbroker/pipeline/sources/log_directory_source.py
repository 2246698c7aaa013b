"""Topics as they are in log directories: no broker has to run, and none is asked.

Ends and starts are looked up in the files, on the driver; rows come through the data source
"kbroker-log", so that every worker has to see the directories under the same paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from errno import ENOENT
from typing import Any

from kbroker.log.disk.checkpoint import CheckpointError, read_partition_metadata
from kbroker.log.disk.file_system import StorageError
from kbroker.model import TopicPartition
from kbroker.pipeline.envelope import ARCHIVE_COLUMNS, ARCHIVE_SCHEMA
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.logdir.directory.log_catalog import LogCatalog, absolute, look_again
from kbroker.pipeline.logdir.directory.partition_log import real_disk, written_end
from kbroker.pipeline.logdir.planning.batch_query import Splits, reading_of
from kbroker.pipeline.logdir.planning.log_stream import LogStream
from kbroker.pipeline.logdir.planning.read_ranges import check_topics_found
from kbroker.pipeline.logdir.planning.source_options import parse_options
from kbroker.pipeline.logdir.planning.split_reading import SplitReading
from kbroker.pipeline.spark_job.offsets import Offsets, Ranges, format_offsets

_FORMAT = "kbroker-log"


class LogDirectorySource:
    """All topics but internal ones, `topics` by name, or those whose name a `pattern` matches."""

    def __init__(
        self,
        directories: Iterable[str],
        topics: Iterable[str] = (),
        pattern: str | None = None,
        *,
        options: Mapping[str, str] | None = None,  # of the data source
    ) -> None:
        self._chosen = {}
        self._names = sorted(set(topics))
        if self._names:
            self._chosen["topics"] = ",".join(self._names)
        if pattern is not None:
            self._chosen["topicsPattern"] = pattern
        self._options = {
            "path": ",".join(dict.fromkeys(absolute(path) for path in directories)),
            **(options or {}),
        }
        self._wanted = parse_options({**self._options, **self._chosen})
        self._catalog = LogCatalog(real_disk(), self._wanted.paths, self._wanted.selection.wants)

    @property
    def needs_connector(self) -> bool:
        return False

    @property
    def bounds_itself(self) -> bool:
        """From pyspark 4.2 on."""
        from kbroker.pipeline.logdir.source.stream_reader import is_admitted

        return is_admitted()

    def describe(self) -> str:
        """Name directories and topics."""
        paths = " ".join(self._wanted.paths)
        selection = self._wanted.selection
        if selection.pattern is not None:
            return f"log directories {paths} pattern {selection.pattern}"
        return f"log directories {paths} topics {','.join(self._names) or 'all'}"

    @property
    def directories(self) -> tuple[str, ...]:
        return self._wanted.paths

    def allowing_loss(self) -> LogDirectorySource:
        """Return a source that goes on past records that were removed or cannot be read."""
        return LogDirectorySource(
            self.directories,
            self._names,
            self._chosen.get("topicsPattern"),
            options={**self._options, "failOnDataLoss": "false", "onDamage": "skip"},
        )

    @property
    def fails_on_data_loss(self) -> bool:
        return self._wanted.fails_on_data_loss

    def chooses(self, topic: str) -> bool:
        """Return whether a topic of this name would be read if it existed."""
        return self._wanted.selection.wants(TopicPartition(topic, 0))

    def topic_ids(self) -> Mapping[str, str]:
        """Read `partition.metadata`; logs from before Kafka 2.8 have none. Any thread may ask."""
        disk = real_disk()
        catalog = LogCatalog(disk, self._wanted.paths, self._wanted.selection.wants)
        found: dict[str, tuple[str, str]] = {}  # id and directory by topic
        for (topic, _), directory in sorted(catalog.directories().items()):
            try:
                topic_id = read_partition_metadata(disk.file_system, directory)
            except CheckpointError as error:
                raise PipelineError(f"{error}") from error
            except StorageError as error:
                if error.errno != ENOENT:
                    raise PipelineError(f"cannot {error}") from error
                continue  # the partition is being deleted
            if topic_id is None:
                continue
            known, elsewhere = found.setdefault(topic, (str(topic_id), directory))
            if known != str(topic_id):
                raise PipelineError(
                    f"{directory} belongs to another topic {topic} than {elsewhere}: it has the id "
                    f"{topic_id}, not {known}; leave out the directory that was left behind when "
                    "the topic was deleted"
                )
        return {topic: topic_id for topic, (topic_id, _) in found.items()}

    def earliest(self) -> Offsets:
        """Look up the first offset of every partition."""
        return {each: log.log.start_offset for each, log in self._logs().items()}

    def latest(self) -> Offsets:
        """Look up last stable offsets if only committed records are read, else the ends."""
        return {each: log.end_offset for each, log in self._logs().items()}

    def log_ends(self) -> Offsets:
        """Look up the ends of logs, also beyond what a restarted broker lets clients read yet: for
        a while after a kill that is less than what was read of its directory before.
        """
        file_system = real_disk().file_system

        def look() -> Offsets:
            return {each: written_end(file_system, log.log) for each, log in self._logs().items()}

        return look_again(look)

    def stream(self, spark: Any, start: Offsets, max_records: int | None) -> Any:
        """Partitions that come later are read from their first record."""
        _register(spark)
        reader = spark.readStream.format(_FORMAT).options(**self._options, **self._chosen)
        reader = reader.schema(ARCHIVE_SCHEMA)
        reader = reader.option("startingOffsets", format_offsets(start))
        if max_records is not None:
            reader = reader.option("maxRecordsPerTrigger", str(max_records))
        return reader.load()

    def batch(self, spark: Any, ranges: Ranges) -> Any:
        """Read exactly these partitions and offsets."""
        _register(spark)
        starts = {partition: each.start for partition, each in ranges.items()}
        ends = {partition: each.end for partition, each in ranges.items()}
        return (
            spark.read.format(_FORMAT)
            .options(**self._options, **self._chosen)
            .schema(ARCHIVE_SCHEMA)
            .option("startingOffsets", format_offsets(starts))
            .option("endingOffsets", format_offsets(ends))
            .load()
        )

    def splits(self, ranges: Ranges) -> tuple[SplitReading, Splits]:
        """Return the same rows for `split_reading.read_split`: tasks that stay in Python read them
        without the way through Java and back.
        """
        wanted = replace(self._wanted, columns=ARCHIVE_COLUMNS)
        starts = {partition: each.start for partition, each in ranges.items()}
        ends = {partition: each.end for partition, each in ranges.items()}
        return reading_of(wanted), LogStream(wanted, real_disk()).plan(starts, ends)

    def _logs(self) -> Mapping[Any, Any]:
        logs = self._catalog.by_partition(is_committed=self._wanted.is_committed)
        topics = {topic for topic, _ in logs}
        file_system = real_disk().file_system
        check_topics_found(file_system, self._wanted.selection, topics, self._wanted.paths)
        return logs


def _register(spark: Any) -> None:
    from kbroker.pipeline.logdir.source import data_source  # imports pyspark

    data_source.register(spark)
