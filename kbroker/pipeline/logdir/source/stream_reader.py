"""The stream of log directories as pyspark asks for it.

An offset is {"topic": {"0": 123}}: the next record of each partition, as Spark's Kafka source
counts. A partition that a start does not name begins with its log. Up to pyspark 4.1 Spark asks for
the latest offset without giving its position: a query that goes on from its checkpoint gives it
once before, with an empty range; one that never ran does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kbroker.pipeline.logdir.directory.partition_log import real_disk
from kbroker.pipeline.logdir.planning.batch_query import reading_of
from kbroker.pipeline.logdir.planning.log_stream import LogStream
from kbroker.pipeline.logdir.planning.source_options import SourceOptions
from kbroker.pipeline.logdir.source.log_split import LogSplit, log_splits, read_log_split
from kbroker.pipeline.spark_job.offsets import Offsets, format_offsets, parse_offsets
from kbroker.pipeline.spark_job.pyspark_process import as_sentences

_ADMISSION = "pyspark.sql.streaming.datasource"  # of pyspark 4.2 and later


class LogStreamReader(DataSourceStreamReader):
    """For pyspark 4.0 and 4.1. Lives in the planner's process; `read` in those of the workers."""

    def __init__(self, wanted: SourceOptions) -> None:
        self._wanted = wanted
        self._reading = reading_of(wanted)
        self._planner: LogStream | None = None  # not for the workers

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planner": None}

    @property
    def stream(self) -> LogStream:
        if self._planner is None:
            self._planner = LogStream(self._wanted, real_disk())
        return self._planner

    @as_sentences()
    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 - pyspark's name
        return _as_json(self.stream.initial())

    @as_sentences()
    def latestOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 - pyspark's name
        return _as_json(self.stream.latest())

    @as_sentences()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[LogSplit]:
        return log_splits(self.stream.plan(_offsets(start), _offsets(end)))

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        return read_log_split(self._reading, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing has to be kept: the directory is not ours."""


class AdmittingStreamReader(LogStreamReader):
    """For pyspark 4.2 and later, which gives the query's position and how much it wants."""

    @as_sentences()
    def latestOffset(  # type: ignore[override]  # noqa: N802 - as pyspark 4.2 calls it
        self, start: dict[str, Any], limit: Any
    ) -> dict[str, dict[str, int]]:
        max_rows: int | None = getattr(limit, "max_rows", None)
        return _as_json(self.stream.latest_from(_offsets(start), max_rows))

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - pyspark's name
        """The limit that the option maxRecordsPerTrigger sets."""
        limits = import_module(_ADMISSION)
        most = self._wanted.max_records
        return limits.ReadAllAvailable() if most is None else limits.ReadMaxRows(most)

    @as_sentences()
    def reportLatestOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 - pyspark's name
        """The offsets that the query's progress shows as the latest."""
        return _as_json(self.stream.end())

    @as_sentences()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - pyspark's name
        self.stream.fix_target()


def stream_reader(wanted: SourceOptions) -> LogStreamReader:
    """The reader that this version of pyspark can use best."""
    if not is_admitted():
        return LogStreamReader(wanted)
    import_module(_ADMISSION).SupportsTriggerAvailableNow.register(AdmittingStreamReader)
    return AdmittingStreamReader(wanted)


def is_admitted() -> bool:
    """True if pyspark gives a stream's position and how much it wants, 4.2 and later."""
    return find_spec(_ADMISSION) is not None


def _offsets(json_object: dict[str, Any]) -> Offsets:
    return parse_offsets(json.dumps(json_object))


def _as_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = json.loads(format_offsets(offsets))
    return found
