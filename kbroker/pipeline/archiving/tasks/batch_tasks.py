"""Reads and writes the records of a batch, whatever the source: by the fastest way, and exactly.

Spark's Kafka connector fails at some records, and delivers others without what its frame has no
room for. A batch that has such a record is read again without the connector, and so are all that
follow in a run: whoever writes one such record writes more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kbroker.pipeline.archiving.tasks.spark_tasks import FactRow, run_on_directories, run_on_frame
from kbroker.pipeline.archiving.tasks.task_facts import Fact, TroubleFact, decode_fact
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.sources.connector_or_exact import is_beyond_connector
from kbroker.pipeline.sources.kafka_source import KafkaSource
from kbroker.pipeline.sources.log_directory_source import LogDirectorySource
from kbroker.pipeline.spark_job.batch import Batch
from kbroker.pipeline.spark_job.stream_failure import is_of_spark, sentence_of_failure

Facts = list[tuple[Fact, bytes]]


class BatchTasks:
    """The tasks of a run, for the thread of its batches. Without a source the frame has all."""

    def __init__(self, source: KafkaSource | LogDirectorySource | None = None) -> None:
        self._source = source
        self._is_exact = False

    def run(
        self, batch: Batch, schemas: Mapping[str, str], new_staging: Callable[[], str]
    ) -> Facts:
        """Write the records of a batch; return what the tasks reported. Raises PipelineError."""
        try:
            return self._run(batch, schemas, new_staging)
        except PipelineError:
            raise
        except Exception as error:
            if is_of_spark(error):
                raise sentence_of_failure(error) from error
            raise

    def _run(
        self, batch: Batch, schemas: Mapping[str, str], new_staging: Callable[[], str]
    ) -> Facts:
        source, staging = self._source, new_staging()
        if isinstance(source, LogDirectorySource) and not schemas:
            spark = batch.frame.sparkSession
            return _decoded(run_on_directories(spark, source, batch.ranges, staging))
        if not isinstance(source, KafkaSource):
            return _decoded(run_on_frame(batch.frame, staging, schemas))
        if not self._is_exact:
            facts = self._by_connector(batch, staging, schemas)
            if facts is not None:
                return facts
            self._is_exact, staging = True, new_staging()
        frame = source.exact_batch(batch.frame.sparkSession, batch.ranges)
        return _decoded(run_on_frame(frame, staging, schemas))

    def _by_connector(self, batch: Batch, staging: str, schemas: Mapping[str, str]) -> Facts | None:
        """Return None if the connector does not deliver the records as they are."""
        try:
            facts = _decoded(run_on_frame(batch.frame, staging, schemas))
        except Exception as error:
            if is_of_spark(error) and is_beyond_connector(error):
                return None
            raise
        if any(isinstance(fact, TroubleFact) and fact.may_be_exact for fact, _ in facts):
            return None
        return facts


def _decoded(rows: list[FactRow]) -> Facts:
    return [(decode_fact(text), gaps) for text, gaps in rows]
