"""The data pipeline: Spark jobs over topics and log directories, and Spark data sources of its own.

Needs the extra `kbroker[spark]` and Java. What notebooks and schedulers call is imported from here
when it is first used: Spark's workers import this package too, and must not load jobs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kbroker.pipeline.archiving.reader import (
        ArchiveSelection,
        archive_files,
        read_archive_frame,
    )
    from kbroker.pipeline.consumer_lag.commit_progress import commit_progress
    from kbroker.pipeline.errors import PipelineError
    from kbroker.pipeline.jobs.archive import archive
    from kbroker.pipeline.jobs.audit import audit
    from kbroker.pipeline.jobs.lag import lag
    from kbroker.pipeline.jobs.mirror import mirror
    from kbroker.pipeline.jobs.restore import restore
    from kbroker.pipeline.jobs.rules import rules
    from kbroker.pipeline.jobs.stream import Stream
    from kbroker.pipeline.spark_job.job_events import JobEvents
    from kbroker.pipeline.spark_job.session import SessionSettings

_HOMES = {
    "ArchiveSelection": "archiving.reader",
    "JobEvents": "spark_job.job_events",
    "PipelineError": "errors",
    "SessionSettings": "spark_job.session",
    "Stream": "jobs.stream",
    "archive_files": "archiving.reader",
    "commit_progress": "consumer_lag.commit_progress",
    "read_archive_frame": "archiving.reader",
}

__all__ = [
    "ArchiveSelection",
    "JobEvents",
    "PipelineError",
    "SessionSettings",
    "Stream",
    "archive",
    "archive_files",
    "audit",
    "commit_progress",
    "lag",
    "mirror",
    "read_archive_frame",
    "register",
    "restore",
    "rules",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(f"{__name__}.{_HOMES.get(name, f'jobs.{name}')}")
    return getattr(home, name)


def register(spark: Any) -> None:
    """Make `spark.read.format("kbroker-log")` known to a session that did not find it by itself."""
    from kbroker.pipeline.logdir.source import data_source

    data_source.register(spark)
