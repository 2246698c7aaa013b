"""A task of a mirror, in this process or a worker's: one partition, in one round."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from kbroker.client.client_error import EndingError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.errors import KafkaError
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.mirroring.copy_writing import CopyOptions
from kbroker.pipeline.mirroring.partition_copy import PartitionCopy
from kbroker.pipeline.restoring.task_board import TaskBoard
from kbroker.pipeline.restoring.task_result import TaskResult


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorTask:
    """Everything that a worker has to know."""

    source: str  # bootstraps
    target: str
    options: CopyOptions
    board: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorResult(TaskResult):
    """`reached` is the next offset of the source, None if it was not begun; `may_pass`: the next
    round may try again what was refused.
    """

    size_bytes: int = 0
    reached: int | None = None
    notes: tuple[str, ...] = ()
    may_pass: bool = False


def mirror_partition(task: MirrorTask) -> MirrorResult:
    """Copy what is missing. Trouble becomes a result: Spark would retry it, in Java's words."""
    board = TaskBoard(task.board)
    partition = task.options.source.partition
    if board.is_stopped:
        return MirrorResult()
    copy: PartitionCopy | None = None
    failed = MirrorResult()
    try:
        with (
            closing(ClusterLinks(task.source)) as readers,
            closing(ClusterLinks(task.target)) as writers,
        ):
            copy = PartitionCopy(
                readers,
                writers,
                task.options,
                lambda: not board.is_stopped,
                partial(board.note, partition),
            )
            copy.run()
    except EndingError as error:
        failed = MirrorResult(
            refusal=f"{partition}: {error.sentence}",
            may_pass=not isinstance(error, PipelineError),
            code=error.code,
            trouble=error.trouble,
        )
    except (KafkaError, OSError) as error:
        may_pass = isinstance(error, OSError) or error.code.retriable
        failed = MirrorResult(refusal=f"{partition}: {error}", may_pass=may_pass)
    return _with_work(failed, copy)


def _with_work(result: MirrorResult, copy: PartitionCopy | None) -> MirrorResult:
    if copy is None:
        return result
    return replace(
        result, rows=copy.rows, size_bytes=copy.size_bytes, reached=copy.reached, notes=copy.notes
    )
