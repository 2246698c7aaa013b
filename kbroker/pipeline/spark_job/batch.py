"""What a job's work is given and gives back, batch by batch, and what a run reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from kbroker.model import TopicPartition
from kbroker.pipeline.spark_job.offsets import Ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One micro-batch. Run again after a crash it has the same number and the same ranges."""

    number: int
    job_id: str
    frame: Any  # DataFrame as `Source.stream` yields it; it belongs to `frame.sparkSession`
    ranges: Ranges  # from the checkpoint's offsets, never from counted rows
    topic_ids: Mapping[str, str] = field(default_factory=dict)  # of topics that have one
    # Raises PipelineError if a topic is another one by now: to be asked when all is read.
    check_topics: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """What the work did with a batch."""

    rows: int
    size_bytes: int = 0
    rows_by_partition: Mapping[TopicPartition, int] = field(default_factory=dict)  # where known
    notes: tuple[str, ...] = ()  # sentences for a person, such as holes that were explained


Work = Callable[[Batch], BatchResult]


class Ending(Enum):
    """Why a run is over."""

    REACHED = "reached the end"
    STOPPED = "stopped after a batch"
    CUT = "stopped within a batch"  # which is run again


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """A finished batch."""

    job_id: str
    number: int
    rows: int
    size_bytes: int
    ranges: Ranges
    seconds: float  # of the work alone
    finished_ms: int  # Unix time
    backlog: int | None  # offsets still to be read after it; None if unknown
    notes: tuple[str, ...] = ()
    lag_s: float | None = None  # where the job knows it


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """Where a run stands, a few times a second."""

    batches: int
    rows: int  # of finished batches of this run
    seconds: float  # since the run began
    backlog: int | None
    is_working: bool  # a batch runs
    trouble: str | None = None  # why the source cannot be asked for more


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """A run that came to its end or was stopped."""

    name: str
    job_id: str
    ending: Ending
    batches: int
    rows: int
    size_bytes: int
    seconds: float
    ranges: Ranges  # from where this run began to where the next one begins
    backlog: int | None  # offsets still to be read
    rows_by_partition: Mapping[TopicPartition, int] = field(default_factory=dict)  # where known
    notes: tuple[str, ...] = ()


class JobEvents(Protocol):
    """Who listens to a run; called in the thread that runs it."""

    def began(self, batch: int, ranges: Ranges) -> None:
        """A batch begins."""
        ...

    def finished(self, report: BatchReport) -> None:
        """The work of a batch is done."""
        ...

    def progress(self, progress: JobProgress) -> None:
        """Called a few times a second."""
        ...

    def tries_again(self, sentence: str) -> None:
        """Spark's query is started again, and why."""
        ...


class NoEvents:
    """Nobody listens."""

    def began(self, batch: int, ranges: Ranges) -> None:
        """Nothing."""

    def finished(self, report: BatchReport) -> None:
        """Nothing."""

    def progress(self, progress: JobProgress) -> None:
        """Nothing."""

    def tries_again(self, sentence: str) -> None:
        """Nothing."""
