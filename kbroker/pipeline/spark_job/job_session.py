"""The session that a job runs over, and the workers that do its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from kbroker.pipeline.spark_job.job_events import JobEvents
from kbroker.pipeline.spark_job.kafka_connector import untested
from kbroker.pipeline.spark_job.session import SessionSettings, check_connector, running_session
from kbroker.pipeline.spark_job.spread import InProcess, OverSpark, Spread


class Workers(NamedTuple):
    """Workers for tasks, how many work at once, and the SparkSession if there is one."""

    spread: Spread
    at_once: int = 1
    spark: Any = None


@contextmanager
def job_session(spark: Any, job: str, events: JobEvents, *, needs_connector: bool) -> Iterator[Any]:
    """Yield a SparkSession for the length of a block: `spark`, or one opened by these
    SessionSettings. Raises PipelineError if there is none.
    """
    if not isinstance(spark, SessionSettings):
        if needs_connector:
            check_connector(spark)
        yield spark
        return
    with suppress(PackageNotFoundError):  # `running_session` says what to install
        if sentence := untested(version("pyspark")):
            events.note(f"warning: {sentence}")
    events.starting()
    settings = replace(spark, app_name=f"kbroker {job}", needs_connector=needs_connector)
    with running_session(settings) as session:
        yield session


@contextmanager
def task_workers(
    spark: Any, job: str, events: JobEvents, *, over_spark: bool, needs_connector: bool = False
) -> Iterator[Workers]:
    """Yield the workers for the tasks of a job."""
    if not over_spark:
        yield Workers(InProcess(events.tasks_done))
        return
    if isinstance(spark, SessionSettings):
        doing = "auditing" if job == "audit" else job
        events.note(f"{doing} with Spark, master {spark.master}")
    with job_session(spark, job, events, needs_connector=needs_connector) as session:
        yield Workers(OverSpark(session), session.sparkContext.defaultParallelism, session)
