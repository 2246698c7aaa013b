"""What a task of a mirror does, in this process or a worker's: one partition, in one round."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from kbroker.client.client_error import EndingError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.exit_code import ExitCode
from kbroker.errors import KafkaError, Trouble
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.mirror.copy_writing import CopyOptions
from kbroker.pipeline.mirror.partition_copy import PartitionCopy
from kbroker.pipeline.restore.task_board import TaskBoard


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorTask:
    """All that a worker has to know."""

    source: str  # bootstraps
    target: str
    options: CopyOptions
    board: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorResult:
    """What a task has done. `reached` is the next offset of the source, None where it was not
    begun; `refusal` why it could not go on, `may_pass` whether the next round may try again.
    """

    rows: int = 0
    size_bytes: int = 0
    reached: int | None = None
    notes: tuple[str, ...] = ()
    refusal: str | None = None
    may_pass: bool = False
    code: ExitCode = ExitCode.ITEM_FAILED
    trouble: Trouble | None = None


def mirror_partition(task: MirrorTask) -> MirrorResult:
    """Copy what is not there yet. Trouble is a result: Spark would try it again, and say it in
    Java's words.
    """
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
