"""Shows ordinary tools how far Spark's streaming queries are.

Spark reads without a group and commits nothing, so no tool knows its lag. Here a listener commits
the end offsets of each finished batch, of every Kafka source of every query, under the group
`spark-<name of the query>` (`spark-<id>` if it has no name):

    from kbroker.pipeline import commit_progress

    commit_progress(spark, "127.0.0.1:9092")

The offsets are for display only: Spark goes on from its checkpoint whatever they say. They are
never ahead of a finished batch, and at most one batch behind one. A cluster that does not answer
neither stops nor slows a query: the last offsets are kept, and tried again with the next report.

Spark does not say which cluster a source reads, so all queries are taken for readers of the one
given here. If queries of a session read several clusters, name those of each:
`commit_progress(spark, "a:9092", queries=["orders"])`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Protocol

from kbroker.client.bootstrap import Bootstrap, check_reachable, settings_of
from kbroker.client.client_error import ClientError
from kbroker.client.library_options import library_settings
from kbroker.pipeline.consumer_lag.query_progress import DueCommits
from kbroker.pipeline.errors import ExitCode, PipelineError

_ARGUMENT = "the argument bootstrap"
_CLIENT_ID = "kbroker-commit-progress"
_REQUEST_TIMEOUT_S = 10.0


class ProgressCommits(Protocol):
    """The listener, as its user sees it."""

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until all that Spark has reported so far is committed; return whether it is."""

    def close(self) -> None:
        """Commit what is due, within seconds, and stop."""


def commit_progress(
    spark: Any,
    bootstrap: str,
    *,
    queries: Collection[str] | None = None,
    **client_options: Any,
) -> ProgressCommits:
    """Commit the progress of the session's streaming queries, also of those that run already.

    `queries` names those it is for; None: all. `client_options` say how to connect, by the names of
    kafka-python, such as `security_protocol`. At the end of the process what is due is committed,
    within seconds. Raises PipelineError if `bootstrap` is not an address, or an option cannot be
    used; if no broker answers, a warning is logged.
    """
    # pyspark belongs to an extra and is slow to import: a user of this has loaded it
    from kbroker.pipeline.consumer_lag.group_commits import GroupCommits
    from kbroker.pipeline.consumer_lag.progress_committer import ProgressCommitter
    from kbroker.pipeline.consumer_lag.progress_listener import ProgressListener

    try:
        settings = library_settings(client_options) if client_options else settings_of(bootstrap)
        check_reachable(bootstrap, _ARGUMENT)
    except ClientError as error:
        if error.code == ExitCode.USAGE:
            raise PipelineError(error.sentence, ExitCode.USAGE) from error
    settings = replace(
        settings,
        client_id=settings.client_id or _CLIENT_ID,
        request_timeout_s=settings.request_timeout_s or _REQUEST_TIMEOUT_S,
    )
    commits = GroupCommits(Bootstrap(bootstrap, settings, _ARGUMENT))
    committer = ProgressCommitter(commits, DueCommits(queries))
    listener = ProgressListener(spark, committer)
    spark.streams.addListener(listener)
    return listener
