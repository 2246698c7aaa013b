"""The batches that a job works on, their results, and the reports of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from kbroker.model import TopicPartition
from kbroker.pipeline.spark_job.offsets import Ranges

DEFAULT_BATCH_RECORDS: Final = 500_000


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
    """The result of the work on a batch."""

    rows: int
    size_bytes: int = 0
    rows_by_partition: Mapping[TopicPartition, int] = field(default_factory=dict)  # if known
    notes: tuple[str, ...] = ()  # sentences for a person, such as holes that were explained


Work = Callable[[Batch], BatchResult]


class Ending(Enum):
    """The reason why a run is over."""

    REACHED = "reached the end"
    STOPPED = "stopped after a batch"
    CUT = "stopped within a batch"  # the batch is run again


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """The report of a finished batch."""

    job_id: str
    number: int
    rows: int
    size_bytes: int
    ranges: Ranges
    seconds: float  # of the work alone
    finished_ms: int  # Unix time
    backlog: int | None  # offsets still to be read after it; None if unknown
    notes: tuple[str, ...] = ()
    lag_s: float | None = None  # if the job knows it


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """How far a run is. Batches are the rounds of a mirror; a restore has none."""

    rows: int  # by this run
    seconds: float  # since it began
    batches: int = 0  # finished ones
    backlog: int | None = None  # offsets to read, at most so many rows of a restore; None: unknown
    lag_s: float | None = None  # of a mirror
    is_working: bool = True  # False: a stream waits for its next batch
    trouble: str | None = None  # why it waits


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """A run that came to its end or was stopped, of any job that writes."""

    name: str
    ending: Ending
    rows: int  # by this run
    seconds: float
    # What this run read; of a restore where all runs wrote, without partitions that got nothing.
    ranges: Ranges
    rows_by_partition: Mapping[TopicPartition, int] = field(default_factory=dict)  # if known
    batches: int = 0  # rounds of a mirror
    size_bytes: int = 0
    job_id: str = ""
    notes: tuple[str, ...] = ()
    backlog: int | None = None  # offsets still to be read
    backlog_by_partition: Mapping[TopicPartition, int] = field(default_factory=dict)  # of a mirror
    lag_s: float | None = None  # of a mirror: age of the oldest record that is not copied
    files: int = 0  # of an archive
    missing: Mapping[str, int] = field(default_factory=dict)  # its offsets without record by reason
    rejected: int = 0  # its values that did not parse as JSON
    counts: Mapping[str, int] = field(default_factory=dict)  # rows of rules by what became of them
    written: Mapping[str, int] = field(default_factory=dict)  # records of rules by topic
    moved_groups: int = 0  # by a restore or a mirror
    refused_groups: tuple[str, ...] = ()
