"""Topics of one cluster kept as copies in another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kbroker.client.bootstrap import as_bootstrap
from kbroker.pipeline.cluster_errors import job_errors
from kbroker.pipeline.jobs.topic_choice import check_choice
from kbroker.pipeline.mirroring.mirror_run import MirrorRun
from kbroker.pipeline.mirroring.mirrored_topics import MirrorChoice
from kbroker.pipeline.spark_job.batch import JobReport
from kbroker.pipeline.spark_job.job_events import NOBODY, JobEvents
from kbroker.pipeline.spark_job.session import OWN_SESSION
from kbroker.record.compression import CODEC_IDS

_NOTHING: Final[Mapping[str, str]] = {}


def mirror(
    *,
    source: str,
    bootstrap: str,
    checkpoint: str,
    topics: Sequence[str] = (),
    pattern: str | None = None,
    every_s: float | None = None,
    append: bool = False,
    allow_loss: bool = False,
    settings: Mapping[str, str] = _NOTHING,
    replication_factor: int = -1,
    compression: str = "lz4",
    spark: Any = OWN_SESSION,
    events: JobEvents = NOBODY,
) -> JobReport:
    """Keep topics of the cluster at `source` as copies in that at `bootstrap`, every record once.

    `every_s` None: one round, else one every so many seconds. `append`: behind the records that a
    topic has. `allow_loss`: go on if the source has lost records. The `settings` win over those of
    the source; a `replication_factor` of -1 is the cluster's own. Raises PipelineError.

    Runs over Spark if `spark` is a SparkSession, or SessionSettings with `is_chosen`.
    """
    check_choice(topics, pattern)
    choice = MirrorChoice(
        topics=tuple(topics),
        pattern=pattern or "",
        settings=dict(settings),
        appends=append,
        allows_loss=allow_loss,
        compression=CODEC_IDS[compression],
    )
    with job_errors(f"{source} or {bootstrap}"):
        ends = (as_bootstrap(source), as_bootstrap(bootstrap))
        return MirrorRun(*ends, choice, replication_factor, every_s).run(checkpoint, spark, events)
