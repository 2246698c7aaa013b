"""Directories, an archive and a cluster checked against each other."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from kbroker.client.bootstrap import settings_of
from kbroker.client.wall_clock import unix_now_ms
from kbroker.pipeline.auditing.audit_job import Means, run_plan
from kbroker.pipeline.auditing.audit_plan import plan_audit
from kbroker.pipeline.auditing.audit_report import AuditReport, AuditRequest
from kbroker.pipeline.auditing.window_counts import WINDOWS
from kbroker.pipeline.errors import OptionsError
from kbroker.pipeline.sources.connector_security import connector_security
from kbroker.pipeline.sources.kafka_source import READ_UNCOMMITTED, KafkaSource
from kbroker.pipeline.spark_job.job_events import NOBODY, JobEvents
from kbroker.pipeline.spark_job.job_session import task_workers
from kbroker.pipeline.spark_job.session import OWN_SESSION, uses_spark


def audit(
    *,
    data: Iterable[str] = (),
    archive: str | None = None,
    bootstrap: str | None = None,
    topics: Sequence[str] = (),
    deep: bool = False,
    window: Literal["hour", "day"] = "hour",
    spark: Any = OWN_SESSION,
    events: JobEvents = NOBODY,
) -> AuditReport:
    """Check data directories, an archive and a cluster, each by itself and against each other.

    No `topics`: all. `deep`: open every batch, and compare records. `window`: records are counted
    by hours or days. `spark`: a SparkSession, or SessionSettings for one of its own, if it is
    needed. Raises PipelineError if a side cannot be looked at.
    """
    directories = _different(data)
    if not (directories or archive or bootstrap):
        raise OptionsError("give --data DIR, --archive DIR or --bootstrap HOST:PORT")
    request = AuditRequest(
        directories=directories,
        archive=archive.rstrip("/") if archive else None,
        bootstrap=bootstrap,
        topics=tuple(topics),
        is_deep=deep,
        window_ms=WINDOWS[window],
        now_ms=unix_now_ms(),
    )
    plan = plan_audit(request)
    counts = bool(deep and bootstrap)  # the records of the cluster, by Spark
    over_spark = counts or uses_spark(spark, plan.size_bytes)
    events.planned(plan, over_spark=over_spark)
    with task_workers(
        spark, "audit", events, over_spark=over_spark, needs_connector=counts
    ) as workers:
        source = _source(request) if counts else None
        return run_plan(plan, Means(spread=workers.spread, spark=workers.spark, source=source))


def _different(paths: Iterable[str]) -> tuple[str, ...]:
    """Each directory once, however often and by which paths it was named."""
    found = {os.path.realpath(path): path.rstrip("/") or "/" for path in reversed([*paths])}
    return tuple(reversed(found.values()))


def _source(request: AuditRequest) -> KafkaSource:
    bootstrap = request.bootstrap or ""
    return KafkaSource(
        bootstrap=str(bootstrap),
        options=connector_security(settings_of(bootstrap)),
        topics=request.topics,
        isolation_level=READ_UNCOMMITTED,
        fails_on_data_loss=False,
    )
