"""Topics kept as Parquet, every record once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kbroker.log.disk.file_system import RealFileSystem
from kbroker.pipeline.archiving.archive_job import ArchiveJob, ArchiveOptions, ClusterAnswers
from kbroker.pipeline.archiving.archive_source import ContinuedSource
from kbroker.pipeline.archiving.evidence.cluster_evidence import ClusterIdentity, ClusterWitness
from kbroker.pipeline.archiving.evidence.hole_reasons import HoleWitness
from kbroker.pipeline.archiving.evidence.log_evidence import LogIdentity, LogWitness
from kbroker.pipeline.archiving.evidence.same_source import SourceIdentity
from kbroker.pipeline.archiving.manifests.archive_mark import check_target
from kbroker.pipeline.archiving.manifests.archive_reading import read_archive
from kbroker.pipeline.archiving.manifests.archive_writer import ArchiveWriter
from kbroker.pipeline.archiving.tasks.batch_tasks import BatchTasks
from kbroker.pipeline.jobs.stream import Stream, run_stream
from kbroker.pipeline.sources.kafka_source import KafkaSource
from kbroker.pipeline.sources.log_directory_source import LogDirectorySource
from kbroker.pipeline.spark_job.batch import JobReport
from kbroker.pipeline.spark_job.job_events import NOBODY, JobEvents
from kbroker.pipeline.spark_job.session import OWN_SESSION

_NO_SCHEMAS: Final[Mapping[str | None, str]] = {}


def archive(
    stream: Stream,
    *,
    to: str,
    allow_loss: bool = False,
    json_schemas: Mapping[str | None, str] = _NO_SCHEMAS,
    spark: Any = OWN_SESSION,
    events: JobEvents = NOBODY,
) -> JobReport:
    """Keep topics as Parquet files in the directory `to`, every record once.

    `allow_loss`: go on if the source has lost records. `json_schemas`: DDL by topic, None for all
    others. `spark`: a SparkSession, which stays open, or SessionSettings for one of its own. Raises
    PipelineError if the directory is not an archive and cannot become one, or if source and archive
    do not fit.
    """
    path, chosen = os.path.abspath(to), stream.source()
    source, job = archive_job(chosen, path, allows_loss=allow_loss, schema_texts=json_schemas)
    try:
        for note in source.check():
            events.note(note)
        run = stream.job(source, "archive", path, job.work, source.check_checkpoint)
        events.planned(run, over_spark=True)
        commit_to = chosen if stream.commit_offsets else None
        report = run_stream(run, spark, events, commit_to=commit_to)
        for note in job.keep_groups():
            events.note(note)
    finally:
        job.close()
    return replace(report, files=job.files, missing=dict(job.missing), rejected=job.rejected)


def archive_job(
    source: KafkaSource | LogDirectorySource,
    path: str,
    *,
    allows_loss: bool = False,
    schema_texts: Mapping[str | None, str] = _NO_SCHEMAS,
) -> tuple[ContinuedSource, ArchiveJob]:
    """Return the source as it goes on in the archive at `path`, and the work for a StreamJob; close
    the job afterwards. Raises PipelineError as `archive` does.
    """
    disk = RealFileSystem()
    state = read_archive(path, disk) if check_target(path, disk) is not None else None
    if allows_loss:
        source = source.allowing_loss()
    witness, identity = _knowledge(source)
    job = ArchiveJob(
        lambda job: ArchiveWriter(path, job),
        witness,
        identity,
        ArchiveOptions(allows_loss=allows_loss, schema_texts=dict(schema_texts)),
        cluster=ClusterAnswers.of(source.cluster) if isinstance(source, KafkaSource) else None,
        tasks=BatchTasks(source),
    )
    return ContinuedSource(source, state, allows_loss=allows_loss, identity=identity), job


def _knowledge(source: KafkaSource | LogDirectorySource) -> tuple[HoleWitness, SourceIdentity]:
    if isinstance(source, KafkaSource):
        return ClusterWitness(source.cluster), ClusterIdentity(source.cluster)
    return LogWitness(source.directories), LogIdentity(source.directories)
