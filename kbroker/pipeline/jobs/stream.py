"""Jobs that read batch by batch: their topics, and their run from session to report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from kbroker.client.bootstrap import settings_of
from kbroker.client.client_error import ClientError
from kbroker.pipeline.consumer_lag.commit_progress import commit_progress
from kbroker.pipeline.errors import OptionsError, PipelineError
from kbroker.pipeline.jobs.topic_choice import check_choice
from kbroker.pipeline.sources.connector_security import connector_security
from kbroker.pipeline.sources.kafka_source import READ_COMMITTED, KafkaSource
from kbroker.pipeline.sources.log_directory_source import LogDirectorySource
from kbroker.pipeline.spark_job.batch import DEFAULT_BATCH_RECORDS, Ending, JobReport, Work
from kbroker.pipeline.spark_job.checkpoint import Checkpoint
from kbroker.pipeline.spark_job.job_events import JobEvents
from kbroker.pipeline.spark_job.job_session import job_session
from kbroker.pipeline.spark_job.offsets import Offsets
from kbroker.pipeline.spark_job.source import Source
from kbroker.pipeline.spark_job.stream_job import JobSettings, StreamJob

# Options of the connector, in small letters, and the option of the job that says the same.
_SAID_ELSEWHERE: Final = {
    "assign": "--topics",
    "failondataloss": "--allow-loss",
    "kafka.bootstrap.servers": "--bootstrap",
    "kafka.isolation.level": "--isolation",
    "maxoffsetspertrigger": "--batch-records",
    "startingoffsets": "--checkpoint",
    "startingoffsetsbytimestamp": "--checkpoint",
    "startingtimestamp": "--checkpoint",
    "subscribe": "--topics",
    "subscribepattern": "--pattern",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Topics that an archive or rules read batch by batch, chosen by name or by a pattern, from a
    cluster (`bootstrap`) or from directories of brokers (`data`).
    """

    checkpoint: str  # a directory of its own
    bootstrap: str | None = None
    data: Sequence[str] = ()
    topics: Sequence[str] = ()
    pattern: str | None = None  # a regular expression for whole names
    isolation: str = READ_COMMITTED
    kafka_options: Mapping[str, str] = field(default_factory=dict)  # of Spark's Kafka source
    name: str = ""  # of Spark's query; empty: that of the job
    every_s: float | None = None  # from batch to batch; None: up to what is there now
    batch_records: int = DEFAULT_BATCH_RECORDS  # at most, over all partitions
    commit_offsets: bool = False  # of finished batches, as group spark-NAME

    def source(self) -> KafkaSource | LogDirectorySource:
        """Raises OptionsError unless it names one source, its topics and options that it can have;
        PipelineError if a directory cannot be read.
        """
        check_choice(self.topics, self.pattern)
        if bool(self.data) == bool(self.bootstrap):
            raise OptionsError(
                "give one source: --bootstrap HOST:PORT, or --data DIR (more than once for several)"
            )
        if self.bootstrap:
            return self._cluster(self.bootstrap)
        if self.kafka_options:
            raise OptionsError("--kafka-option is for --bootstrap, not for --data")
        if self.commit_offsets:
            raise OptionsError("--commit-offsets is for --bootstrap, not for --data")
        return LogDirectorySource(
            directories=self.data,
            topics=self.topics,
            pattern=self.pattern,
            options={"isolation.level": self.isolation},
        )

    def _cluster(self, bootstrap: str) -> KafkaSource:
        for name in self.kafka_options:
            option = _SAID_ELSEWHERE.get(name.lower())
            if option is not None:
                raise OptionsError(
                    f"--kafka-option {name}: the job sets that itself, give {option}"
                )
        try:
            source = KafkaSource(
                bootstrap=str(bootstrap),
                topics=tuple(self.topics),
                pattern=self.pattern,
                isolation_level=self.isolation,
                options=connector_security(settings_of(bootstrap)) | dict(self.kafka_options),
            )
            tls = source.cluster.settings.tls
            if tls is not None:  # what the job's own client cannot do is refused at once
                from kbroker.client.tls import tls_context  # most jobs need no ssl

                tls_context(tls)
        except (ClientError, PipelineError) as error:
            raise OptionsError(error.sentence) from error
        return source

    def job(
        self,
        source: Source,
        kind: str,
        target: str,
        work: Work,
        check: Callable[[Offsets, Offsets], None] | None = None,
    ) -> StreamJob:
        """The checkpoint remembers `target`, and `check` compares the two (see JobSettings)."""
        settings = JobSettings(
            kind=kind,
            target=target,
            every_s=self.every_s,
            batch_records=self.batch_records,
            check=check,
        )
        return StreamJob(self.name or kind, source, Checkpoint(self.checkpoint), settings, work)


def run_stream(
    job: StreamJob,
    spark: Any,
    events: JobEvents,
    *,
    commit_to: Source | None = None,
    before: Callable[[Any], None] = lambda _spark: None,
    at_end: Callable[[Any, str], None] = lambda _spark, _job_id: None,
) -> JobReport:
    """Run a job to its end, or until it is stopped. Raises PipelineError.

    Finished batches are committed to the cluster of `commit_to`. `before` gets the session ahead of
    the first batch, `at_end` session and job id if the run has reached its end.
    """
    job.prepare()  # what is wrong with source or checkpoint is said before Spark takes its seconds
    kind, needs_connector = job.settings.kind, job.source.needs_connector
    with (
        job_session(spark, kind, events, needs_connector=needs_connector) as session,
        events.running(job, "batch"),
    ):
        before(session)
        with _committing(session, job.name, commit_to):
            report = job.run(session, events)
        if report.ending is Ending.REACHED:
            at_end(session, report.job_id)
        events.ended(report)
    return report


@contextmanager
def _committing(spark: Any, name: str, source: Source | None) -> Iterator[None]:
    if not isinstance(source, KafkaSource):
        yield
        return
    listener = commit_progress(spark, source.cluster, queries=[name])
    try:
        yield
    finally:
        listener.close()
