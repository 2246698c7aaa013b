"""The data pipeline: Spark jobs over topics and log directories, and Spark data sources of its own.

Needs the extra `kbroker[spark]` and Java. Nothing else in the package imports this one but the
command line, which does so when a job is called. What a notebook needs is imported from here; it
imports pyspark and pyarrow when it is called.
"""

from __future__ import annotations

from typing import Any

from kbroker.pipeline.archiving.reader import ArchiveSelection, archive_files, read_archive_frame
from kbroker.pipeline.consumer_lag.commit_progress import commit_progress

__all__ = [
    "ArchiveSelection",
    "archive_files",
    "commit_progress",
    "read_archive_frame",
    "register",
]


def register(spark: Any) -> None:
    """Make `spark.read.format("kbroker-log")` known to a session that did not find it by itself."""
    from kbroker.pipeline.logdir.source import data_source

    data_source.register(spark)
