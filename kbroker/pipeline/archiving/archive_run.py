"""What an archive job is made of, from what a person chose: source, witness, writer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
from kbroker.pipeline.sources.kafka_source import KafkaSource
from kbroker.pipeline.sources.log_directory_source import LogDirectorySource
from kbroker.pipeline.spark_job.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRun:
    """A source, and the work for a StreamJob that archives it; close the job afterwards."""

    source: ContinuedSource
    job: ArchiveJob


def archive_run(
    source: Source,
    path: str,
    *,
    allows_loss: bool = False,
    schema_texts: Mapping[str | None, str] | None = None,
) -> ArchiveRun:
    """Prepare a run into the archive in `path`, an absolute path; nothing is written yet.

    Raises PipelineError if the directory is not
    an archive and cannot become one, or where source and archive do not fit together.
    """
    if not isinstance(source, KafkaSource | LogDirectorySource):
        raise TypeError(f"nothing is known of holes in {source.describe()}")
    disk = RealFileSystem()
    state = read_archive(path, disk) if check_target(path, disk) is not None else None
    if allows_loss:
        source = source.allowing_loss()
    witness, identity = _knowledge(source)
    options = ArchiveOptions(allows_loss=allows_loss, schema_texts=dict(schema_texts or {}))
    return ArchiveRun(
        source=ContinuedSource(source, state, allows_loss=allows_loss, identity=identity),
        job=ArchiveJob(
            lambda job: ArchiveWriter(path, job),
            witness,
            identity,
            options,
            cluster=ClusterAnswers.of(source.cluster) if isinstance(source, KafkaSource) else None,
            tasks=BatchTasks(source),
        ),
    )


def _knowledge(source: KafkaSource | LogDirectorySource) -> tuple[HoleWitness, SourceIdentity]:
    if isinstance(source, KafkaSource):
        return ClusterWitness(source.cluster), ClusterIdentity(source.cluster)
    return LogWitness(source.directories), LogIdentity(source.directories)
