"""Commits what is due in a thread of its own, so that neither a query nor Spark's event bus waits
for a cluster.

Law: what cannot be committed is kept, and tried again at Spark's next event. One warning is logged
when commits begin to fail: for the cluster, or for a group that the cluster refuses.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from kbroker.model import TopicPartition
from kbroker.pipeline.consumer_lag.group_commits import CommitOutcome
from kbroker.pipeline.consumer_lag.query_progress import DueCommits, ProgressReport

_log = logging.getLogger(__name__)
_CLUSTER = ""


class Commits(Protocol):
    """Commits offsets of a group."""

    def commit(self, group: str, offsets: dict[TopicPartition, int]) -> CommitOutcome:
        """Return the outcome, within bounded time."""

    def close(self) -> None:
        """Close the connection to the cluster."""


@dataclass
class ProgressCommitter:
    """Takes reports from any thread; its own thread ends with the process, or by `close`."""

    commits: Commits
    due: DueCommits
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _events: int = 0  # heard of
    _seen: int = 0  # how many of them have had their commits tried
    _closing: bool = False
    _warned: set[str] = field(default_factory=set)  # of these groups; _CLUSTER: of all

    def __post_init__(self) -> None:
        self._thread = threading.Thread(
            target=self._run, name="kbroker-commit-progress", daemon=True
        )
        self._thread.start()

    def report(self, report: ProgressReport) -> None:
        """Take in the end of a batch. Returns at once."""
        try:
            with self._changed:
                self.due.report(report)
        except ValueError as error:
            _log.warning("the offsets of query %s are not committed: %s", report.query_name, error)
        self.wake()

    def wake(self) -> None:
        """Try again what is still due, as something happened."""
        with self._changed:
            self._events += 1
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until all reports so far have been tried; return whether nothing is left."""
        with self._changed:
            wanted = self._events
            self._changed.wait_for(lambda: self._seen >= wanted or self._closing, timeout_s)
            return self._seen >= wanted and not self.due.due()

    def close(self, timeout_s: float) -> None:
        """Try what is due, and end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._events > self._seen or self._closing)
                events, closing, due = self._events, self._closing, self.due.due()
            for group, offsets in due.items():
                if not self._commit(group, offsets):
                    break  # the others would wait for the same cluster
            with self._changed:
                self._seen = events
                self._changed.notify_all()
            if closing:
                self.commits.close()
                return

    def _commit(self, group: str, offsets: dict[TopicPartition, int]) -> bool:
        """Return whether the cluster answers."""
        try:
            outcome = self.commits.commit(group, offsets)
        except Exception as error:  # the top of this thread: no commit may end a query
            outcome = CommitOutcome({}, f"offsets of {group} were not committed: {error!r}")
        with self._changed:
            self.due.settled(group, outcome.settled)
        self._tell(group if outcome.cluster_answers else _CLUSTER, outcome.problem)
        return outcome.cluster_answers

    def _tell(self, whose: str, problem: str | None) -> None:
        if whose != _CLUSTER:
            self._warned.discard(_CLUSTER)
        if problem is None:
            self._warned.discard(whose)
        elif whose not in self._warned:
            self._warned.add(whose)
            _log.warning(
                "%s; queries continue, and their offsets are committed when that works again",
                problem,
            )


def wait_until(is_done: Callable[[], bool], timeout_s: float) -> bool:
    """Poll until `is_done`, or until the time is over."""
    deadline = time.monotonic() + timeout_s
    while not is_done():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True
