"""An archive written back, into the topics of a cluster or as a data directory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kbroker.client.bootstrap import as_bootstrap
from kbroker.pipeline.archiving.manifests.archive_reading import read_archive
from kbroker.pipeline.archiving.reader import ArchiveSelection
from kbroker.pipeline.cluster_errors import job_errors
from kbroker.pipeline.errors import OptionsError
from kbroker.pipeline.restoring.logs.directory_run import DirectoryRun
from kbroker.pipeline.restoring.logs.log_restore import LogEncoding
from kbroker.pipeline.restoring.restore_plan import RestoreChoice, RestorePlan, plan_restore
from kbroker.pipeline.restoring.topics.topic_restore import TopicTargets
from kbroker.pipeline.restoring.topics.topics_run import TopicsRun
from kbroker.pipeline.spark_job.batch import JobReport
from kbroker.pipeline.spark_job.job_events import NOBODY, JobEvents
from kbroker.pipeline.spark_job.session import OWN_SESSION, uses_spark
from kbroker.record.compression import CODEC_IDS

_NOTHING: Final[Mapping[str, str]] = {}


def restore(
    *,
    archive: str,
    checkpoint: str,
    bootstrap: str | None = None,
    data: str | None = None,
    topics: Sequence[str] = (),
    partitions: Sequence[int] = (),
    start_ms: int | None = None,
    end_ms: int | None = None,
    keys: Iterable[bytes] = (),
    rename: Mapping[str, str] = _NOTHING,
    append: bool = False,
    groups: bool = True,
    settings: Mapping[str, str] = _NOTHING,
    replication_factor: int = -1,
    compression: str = "lz4",
    max_rate: int | None = None,
    spark: Any = OWN_SESSION,
    events: JobEvents = NOBODY,
) -> JobReport:
    """Write an archive back into the topics of a cluster (`bootstrap`), every record once, or as a
    new directory of a broker (`data`), where records keep their offsets.

    `start_ms` and `end_ms` (exclusive) are Unix ms, `max_rate` is in bytes/s. `append`: behind the
    records that a topic has. `groups`: move those of the archive. The `settings` win over those in
    the archive; a `replication_factor` of -1 is the cluster's own. `spark`: a SparkSession, or
    SessionSettings for one of its own, if there is much to read. Raises PipelineError.
    """
    _check_target(bootstrap, data)
    if start_ms is not None and end_ms is not None and end_ms <= start_ms:
        raise OptionsError("--to is not after --from: no record would be wanted")
    wanted = ArchiveSelection(
        topics=tuple(topics), partitions=tuple(partitions), start_ms=start_ms, end_ms=end_ms
    )
    choice = RestoreChoice(wanted=wanted, keys=frozenset(keys), renamed=rename)
    state = read_archive(os.path.abspath(archive))
    plan = RestorePlan(state=state, choice=choice, partitions=tuple(plan_restore(state, choice)))
    events.planned(plan, over_spark=uses_spark(spark, plan.size_bytes))
    codec, bytes_per_s = CODEC_IDS[compression], float(max_rate or 0)
    if data is not None:
        return DirectoryRun(
            plan=plan,
            data=data,
            checkpoint=checkpoint,
            settings=settings,
            how=LogEncoding(compression=codec, bytes_per_s=bytes_per_s),
        ).run(spark, events)
    targets = TopicTargets(
        bootstrap=as_bootstrap(bootstrap or ""),
        appends=append,
        settings=settings,
        moves_groups=groups,
        replication_factor=replication_factor,
        compression=codec,
        bytes_per_s=bytes_per_s,
    )
    with job_errors(targets.bootstrap):
        return TopicsRun(plan=plan, checkpoint=checkpoint, targets=targets).run(spark, events)


def _check_target(bootstrap: str | None, data: str | None) -> None:
    if bootstrap and data is not None:
        raise OptionsError(
            "give --bootstrap HOST:PORT to write into topics, or --data DIR to make a data "
            "directory, not both"
        )
    if not bootstrap and data is None:
        raise OptionsError(
            "give --bootstrap HOST:PORT: the cluster to write to; or --data DIR: the data "
            "directory to make"
        )
