"""The work of one Spark task, as pyspark carries it to the worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition

from kbroker.pipeline.logdir.directory.partition_log import real_disk
from kbroker.pipeline.logdir.planning.batch_query import Splits
from kbroker.pipeline.logdir.planning.split_reading import SplitReading, read_split
from kbroker.pipeline.logdir.planning.splits import PlannedTask
from kbroker.pipeline.spark_job.pyspark_process import as_sentences, spare_process


class LogSplit(InputPartition):
    """Tasks that are read one after the other."""

    def __init__(self, tasks: tuple[PlannedTask, ...]) -> None:
        super().__init__(tasks)
        self.tasks = tasks


def log_splits(plan: Splits) -> list[LogSplit]:
    return [LogSplit(tasks) for tasks in plan]


def read_log_split(reading: SplitReading, partition: InputPartition | None) -> Iterator[Any]:
    """The rows of a split as Arrow record batches; none for the split that pyspark makes up if
    there is nothing to read.
    """
    spare_process()
    if isinstance(partition, LogSplit):
        with as_sentences():
            yield from read_split(real_disk(), partition.tasks, reading)
