"""A task of a restore into a data directory, in this process or a worker's: one log.

Law: the log is whole, cleanly closed and on the disk before its directory says so; a run that goes
on asks that file first.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec
import pyarrow as pa

from kbroker.client.client_error import EndingError
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.log.disk.checkpoint import write_atomically
from kbroker.log.disk.file_system import FileSystem, RealFileSystem, StorageError
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.restoring.logs.log_writing import LogWriting, WrittenDirectory, WrittenLog
from kbroker.pipeline.restoring.logs.restore_note import BROKER_ID
from kbroker.pipeline.restoring.pace import Pace
from kbroker.pipeline.restoring.task_board import TaskBoard
from kbroker.pipeline.restoring.task_result import TaskResult
from kbroker.pipeline.restoring.wanted_rows import WantedRows

_WHOLE_FILE: Final = "kbroker-restored.json"
_NOBODY: Final = logging.NullHandler()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTask:
    """Everything that a worker has to know. `bytes_per_s` 0: unlimited."""

    rows: WantedRows
    directory: str  # a data directory for this log alone
    cluster_id: str
    settings: Mapping[str, str]  # of the topic
    log: WrittenLog
    board: str
    bytes_per_s: float


class _Whole(msgspec.Struct, frozen=True, kw_only=True):
    rows: int


class _StoppedError(Exception):
    """A person has asked the restore to stop."""


def restore_log(task: LogTask, file_system: FileSystem | None = None) -> TaskResult:
    """Write what is missing. Trouble becomes a result: Spark would retry it, in Java's words."""
    # A log's own advice about its disk is for operators of brokers: lower retention, restart.
    logging.getLogger("kbroker.log").addHandler(_NOBODY)
    try:
        return _restored(task, file_system or RealFileSystem())
    except EndingError as error:
        return TaskResult(refusal=error.sentence, code=error.code, trouble=error.trouble)
    except StorageError as error:
        return TaskResult(refusal=f"{task.directory} cannot be written: {error}; run again")
    except OSError as error:
        where, why = error.filename or task.directory, error.strerror or error
        return TaskResult(refusal=f"{where} cannot be written: {why}; run again")


def _restored(task: LogTask, file_system: FileSystem) -> TaskResult:
    whole = _read_whole(file_system, task.directory)
    if whole is not None:
        return TaskResult(rows_before=whole.rows, is_complete=True)
    board = TaskBoard(task.board)
    if board.is_stopped:
        return TaskResult()
    config = TopicConfig.from_overrides(KafkaConfig(), task.settings)
    directory = WrittenDirectory(
        path=task.directory,
        cluster_id=task.cluster_id,
        broker_id=BROKER_ID,
        topic_config=lambda _: config,
    )
    is_complete = False
    with LogWriting(directory, file_system) as writing:
        log = writing.open(task.log)
        before = log.count_rows()
        with suppress(_StoppedError):
            log.write(_paced(task, board, log.next_offset))
            is_complete = True
    if is_complete:
        text = msgspec.json.encode(_Whole(rows=before + log.rows)).decode()
        write_atomically(file_system, f"{task.directory}/{_WHOLE_FILE}", text)
    return TaskResult(rows=log.rows, rows_before=before, is_complete=is_complete)


def _paced(task: LogTask, board: TaskBoard, start_offset: int) -> Iterator[pa.RecordBatch]:
    """Yield rows; _StoppedError if it is to stop: the log must not end as if there were no more."""
    pace = Pace(task.bytes_per_s, lambda: not board.is_stopped)
    given = 0
    for rows in task.rows.since(start_offset):
        if not pace.wait(pace.owed_s(rows.nbytes)):
            raise _StoppedError
        yield rows
        given += rows.num_rows
        board.note(task.log.partition, given)


def _read_whole(file_system: FileSystem, directory: str) -> _Whole | None:
    path = f"{directory}/{_WHOLE_FILE}"
    if not file_system.exists(path):
        return None
    try:
        return msgspec.json.decode(file_system.read_bytes(path), type=_Whole)
    except msgspec.DecodeError as error:
        raise PipelineError(
            f"{path} is damaged ({error}): remove {directory}, and run again"
        ) from error
