"""What a task of a restore into topics does, in this process or a worker's: one partition."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from kbroker.client.client_error import EndingError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.exit_code import ExitCode
from kbroker.client.transactional_producer import Position
from kbroker.errors import KafkaError, Trouble
from kbroker.pipeline.archive.ordered.ordered_reading import ordered_rows
from kbroker.pipeline.archive.reader import ArchiveSelection
from kbroker.pipeline.restore.offset_map import OffsetMap
from kbroker.pipeline.restore.pace import Pace
from kbroker.pipeline.restore.restore_plan import PartitionPlan
from kbroker.pipeline.restore.task_board import TaskBoard
from kbroker.pipeline.restore.topic_writer import TopicWriter, WriterOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTask:
    """All that a worker has to know. `bytes_per_s` 0: as fast as it goes."""

    archive: str
    plan: PartitionPlan
    wanted: ArchiveSelection
    keys: frozenset[bytes]
    bootstrap: str
    group: str
    maps: str
    board: str
    reached: Position
    topic_id: UUID
    compression: int
    bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResult:
    """What a task has done; `refusal` is why it could not go on."""

    rows: int = 0
    is_complete: bool = False
    refusal: str | None = None
    code: ExitCode = ExitCode.ITEM_FAILED
    trouble: Trouble | None = None


def restore_partition(task: TopicTask) -> TopicResult:
    """Write what is not there yet. Trouble is a result: Spark would try it again, and say it in
    Java's words.
    """
    board = TaskBoard(task.board)
    target = task.plan.target
    options = WriterOptions(
        group=task.group,
        transactional_id=f"{task.group}-{target}",
        reached=task.reached,
        topic_id=task.topic_id,
        compression=task.compression,
        pace=Pace(task.bytes_per_s, lambda: not board.is_stopped),
        on_commit=partial(board.note, target),
    )
    try:
        if board.is_stopped:
            return TopicResult()
        with closing(ClusterLinks(task.bootstrap)) as links:
            writer = TopicWriter(links, target, OffsetMap(task.maps, target), options)
            is_complete = writer.write(lambda offset: _rows_from(task, offset))
        return TopicResult(rows=writer.rows, is_complete=is_complete)
    except EndingError as error:
        return TopicResult(refusal=error.sentence, code=error.code, trouble=error.trouble)
    except (KafkaError, OSError) as error:
        return TopicResult(refusal=f"{target}: {error}")


def _rows_from(task: TopicTask, offset: int) -> Iterator[pa.RecordBatch]:
    wanted = replace(task.wanted, start_offset=max(offset, task.wanted.start_offset or 0))
    batches = ordered_rows(task.archive, task.plan.files, wanted)
    if not task.keys:
        yield from batches
        return
    keys = pa.array(sorted(task.keys), pa.binary())
    for rows in batches:
        chosen = rows.filter(pc.is_in(rows.column("key"), value_set=keys))
        if chosen.num_rows:
            yield chosen
