"""The reports of a job while it runs, and the way to stop it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kbroker.pipeline.spark_job.batch import BatchReport, JobProgress, JobReport
    from kbroker.pipeline.spark_job.offsets import Ranges


class StoppableJob(ABC):
    """A job that can be ended while it runs; any thread may call it."""

    @abstractmethod
    def stop(self) -> None:
        """End after the piece of work that is done now."""

    def cut(self) -> bool:
        """End at once; False if only the end of the process does that. The next run then mends what
        this one left half done.
        """
        return False


class JobEvents:
    """Ignores everything: override what you want to hear. Jobs print nothing themselves."""

    progress_interval_s = 0.5  # of restores and mirrors

    def note(self, sentence: str) -> None:
        """Hear a sentence for a person: a warning, or what was done besides."""

    def planned(self, plan: Any, *, over_spark: bool) -> None:
        """Hear what will be done, before any of it is; an exception raised here prevents it. `plan`
        is a StreamJob, RulesPlan, RestorePlan or AuditPlan.
        """

    def starting(self) -> None:
        """Hear that Spark starts."""

    def running(self, job: StoppableJob, piece: str) -> AbstractContextManager[Any]:  # noqa: ARG002
        """Surround the work. A job that is stopped ends after a `piece`."""
        return nullcontext()

    def began(self, batch: int, ranges: Ranges) -> None:
        """Hear that a batch begins."""

    def finished(self, report: BatchReport) -> None:
        """Hear that the work of a batch, or the round of a mirror, is done."""

    def progress(self, progress: JobProgress) -> None:
        """Hear a few times a second how far the job is; for restores and mirrors in a thread of its
        own.
        """

    def tasks_done(self, done: int, of: int) -> None:
        """Hear how many tasks of an audit are done in this process."""

    def tries_again(self, sentence: str) -> None:
        """Hear that Spark's query is started again; the sentence says why."""

    def ended(self, report: JobReport) -> None:
        """Hear that a stream is over, its session still open. One that was cut still works on its
        batch, for which Spark waits when the session is closed.
        """


NOBODY: Final = JobEvents()


@contextmanager
def polled_progress(events: JobEvents, look: Callable[[], JobProgress]) -> Iterator[None]:
    """Report what `look` returns until the block ends, from a thread of its own."""
    is_over = threading.Event()

    def report() -> None:
        while not is_over.wait(events.progress_interval_s):
            events.progress(look())

    thread = threading.Thread(target=report, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
