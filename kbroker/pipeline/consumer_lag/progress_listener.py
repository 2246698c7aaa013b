"""Spark's side of `commit_progress`: events in, reports out. Nothing here waits or raises: Spark
calls from the one thread that serves all listeners of a session.
"""

from __future__ import annotations

import atexit
import threading
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from kbroker.pipeline.consumer_lag.progress_committer import ProgressCommitter, wait_until
from kbroker.pipeline.consumer_lag.query_progress import ProgressReport, SourceReport

_AT_END_S = 5.0


class ProgressListener(StreamingQueryListener):
    """Hears of all queries of a session."""

    def __init__(self, spark: Any, committer: ProgressCommitter) -> None:
        self._session_of_queries = spark
        self._committer = committer
        self._lock = threading.Lock()
        self._running: set[str] = set()  # run ids of queries whose end was not heard of
        atexit.register(self.flush, _AT_END_S)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's name
        with self._lock:
            self._running.add(str(event.runId))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        self._committer.report(
            ProgressReport(
                query_id=str(progress.id),
                query_name=progress.name,
                sources=tuple(
                    SourceReport(source.description, _offset(source.endOffset))
                    for source in progress.sources
                ),
            )
        )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: ARG002, N802
        self._committer.wake()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Report the end of a query; all its reports came before."""
        with self._lock:
            self._running.discard(str(event.runId))
        self._committer.wake()

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait for commits, see `ProgressCommits`. Spark lets a caller that awaits a query's end go
        on before the query's last events arrive.
        """
        heard = wait_until(lambda: not self._ended_unheard(), timeout_s)
        return self._committer.flush(timeout_s) and heard

    def close(self) -> None:
        """Commit what is due, and stop."""
        self.flush(_AT_END_S)
        atexit.unregister(self.flush)
        self._session_of_queries.streams.removeListener(self)
        self._committer.close(_AT_END_S)

    def _ended_unheard(self) -> set[str]:
        with self._lock:
            running = set(self._running)
        if not running:
            return running
        try:
            active = {str(query.runId) for query in self._session_of_queries.streams.active}
        except Exception:  # the session is gone, and no event comes any more
            return set()
        return running - active


def _offset(text: Any) -> str | None:
    """Return an end offset as text; None for the `null` of Spark and the `None` of pyspark."""
    return None if text in (None, "", "None", "null") else str(text)
