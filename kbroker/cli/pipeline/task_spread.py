"""Where the tasks of a job run that needs Spark only for what is large."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kbroker.cli.pipeline.session_options import SessionOptions
from kbroker.cli.shown.output import say
from kbroker.pipeline.spark_job.session import running_session
from kbroker.pipeline.spark_job.spread import InProcess, OverSpark, Spread


@contextmanager
def tasks_spread(session: SessionOptions | None, job: str) -> Iterator[tuple[Spread, int]]:
    """Yield who runs the tasks, and how many at once; without a session it is this process."""
    if session is None:
        yield InProcess(), 1
        return
    say(f"{job} with Spark, master {session.master}")
    with running_session(session.settings(f"kbroker {job}", needs_connector=False)) as spark:
        yield OverSpark(spark), spark.sparkContext.defaultParallelism
