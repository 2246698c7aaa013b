"""A task of a restore into topics, in this process or a worker's: one partition."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from kbroker.client.client_error import EndingError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.transactional_producer import Position
from kbroker.errors import KafkaError
from kbroker.pipeline.restoring.pace import Pace
from kbroker.pipeline.restoring.task_board import TaskBoard
from kbroker.pipeline.restoring.task_result import TaskResult
from kbroker.pipeline.restoring.topics.offset_map import OffsetMap
from kbroker.pipeline.restoring.topics.topic_writer import TopicWriter, WriterOptions
from kbroker.pipeline.restoring.wanted_rows import WantedRows


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTask:
    """Everything that a worker has to know. `bytes_per_s` 0: unlimited."""

    rows: WantedRows
    bootstrap: str
    group: str
    maps: str
    board: str
    reached: Position
    topic_id: UUID
    appends: bool
    compression: int
    bytes_per_s: float


def restore_partition(task: TopicTask) -> TaskResult:
    """Write what is missing. Trouble becomes a result: Spark would retry it, in Java's words."""
    board = TaskBoard(task.board)
    target = task.rows.plan.target
    options = WriterOptions(
        group=task.group,
        transactional_id=f"{task.group}-{target}",
        reached=task.reached,
        topic_id=task.topic_id,
        appends=task.appends,
        compression=task.compression,
        pace=Pace(task.bytes_per_s, lambda: not board.is_stopped),
        on_commit=partial(board.note, target),
    )
    try:
        if board.is_stopped:
            return TaskResult()
        with closing(ClusterLinks(task.bootstrap)) as links:
            writer = TopicWriter(links, target, OffsetMap(task.maps, target), options)
            is_complete = writer.write(task.rows.since)
        return TaskResult(rows=writer.rows, is_complete=is_complete)
    except EndingError as error:
        return TaskResult(refusal=error.sentence, code=error.code, trouble=error.trouble)
    except (KafkaError, OSError) as error:
        return TaskResult(refusal=f"{target}: {error}")
