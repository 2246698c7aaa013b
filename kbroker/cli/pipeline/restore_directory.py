"""Runs a restore into a data directory for a person: whose directory it is, its metadata, and the
report.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import Mapping, Sequence

from kbroker.cli.arguments.connection import ExitCode
from kbroker.cli.pipeline.restore_tasks import REPORT_COLUMNS, RestoreTasks
from kbroker.cli.pipeline.session_options import SessionOptions
from kbroker.cli.shown.output import print_rows, say
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.restoring.logs.log_restore import LogRestore, LogWish
from kbroker.pipeline.restoring.logs.log_task import LogTask, restore_log
from kbroker.pipeline.restoring.logs.restore_note import (
    BROKER_ID,
    RestoreNote,
    check_reaches,
    cluster_id_of,
    expired_since,
    noted_topics,
)
from kbroker.pipeline.restoring.logs.restored_directory import RestoredDirectory, Stage
from kbroker.pipeline.restoring.restore_plan import PartitionPlan, RestoreWish
from kbroker.pipeline.restoring.task_board import BOARD, TaskBoard
from kbroker.pipeline.restoring.task_result import TaskResult
from kbroker.pipeline.spark_job.checkpoint import Checkpoint, JobIdentity, PlacesElsewhere
from kbroker.server.metadata_tree.topic_ops import TopicWithLogs
from kbroker.server.metadata_tree.written_tree import write_tree
from kbroker.topic_name import topic_name_fault
from kbroker.zk.tree import TreeUnavailableError


class DirectoryRun:
    """One call, from the checks to the report. `settings` win over those in the archive."""

    def __init__(
        self,
        state: ArchiveState,
        plans: Sequence[PartitionPlan],
        wish: RestoreWish,
        settings: Mapping[str, str],
        how: LogWish,
    ) -> None:
        self._state, self._plans, self._wish = state, plans, wish
        self._settings, self._how = settings, how

    def run(
        self, data: str, checkpoint: str, session: SessionOptions | None, output: str
    ) -> ExitCode:
        """The exit code; without a session the work is done in this process.

        Raises PipelineError.
        """
        path = os.path.abspath(checkpoint)
        directory, held = RestoredDirectory(os.path.abspath(data)), Checkpoint(path)
        self._check_names()
        _check_apart(path, directory.path)
        topics = noted_topics(self._state, self._plans, self._settings)
        with held.held():
            identity = self._identity(directory)
            known = held.read(identity)
            directory.stage(known.job_id if known is not None else None)
            with directory.held():
                job = held.claim(identity, PlacesElsewhere())
                stage = directory.stage(job.job_id)
                if stage is Stage.WHOLE:
                    directory.clear()
                    say(f"{data} is whole, as an earlier run left it: nothing to restore")
                    return ExitCode.FINE
                if stage is Stage.NEW:
                    command = self._command(directory.path, path)
                    directory.begin(RestoreNote(job_id=job.job_id, command=command, topics=topics))
                note = directory.note()
                check_reaches(self._state, note)
                for sentence in expired_since(self._state, note):
                    say(f"warning: {sentence}")
                restore = LogRestore(
                    archive=self._state.path,
                    directory=directory,
                    note=note,
                    plans=self._plans,
                    wish=self._wish,
                    how=self._how,
                )
                return self._write(restore, TaskBoard(f"{path}/{BOARD}"), session, output, data)

    def _write(
        self,
        restore: LogRestore,
        board: TaskBoard,
        session: SessionOptions | None,
        output: str,
        data: str,
    ) -> ExitCode:
        for sentence in restore.warnings(time.time_ns() // 1_000_000):
            say(f"warning: {sentence}")
        done: list[LogTask] = []

        def tasks(at_once: int) -> list[LogTask]:
            done.extend(restore.tasks(str(board.directory), at_once))
            return done

        work = RestoreTasks(board, sum(plan.rows for plan in self._plans), "batch")
        work.run(session, restore_log, tasks)
        more = "run again to go on"
        if work.is_at_end:
            restore.directory.finish(restore.note, lambda home: _write_tree(restore.note, home))
            more = f"`kbroker start --data {shlex.quote(data)}` serves it"
        _report(done, work.results, output)
        work.say_end(more)
        return work.exit_code

    def _identity(self, directory: RestoredDirectory) -> JobIdentity:
        settings = ",".join(f"{name}={value}" for name, value in sorted(self._settings.items()))
        wish = [self._wish.text(), f"settings={settings}" if settings else ""]
        return JobIdentity(
            kind="restore",
            name="restore",
            source=" ".join(["archive", self._state.archive_id, *filter(None, wish)]),
            target=f"data directory {directory.path}",
        )

    def _command(self, data: str, checkpoint: str) -> str:
        """Return the line that goes on with it, wherever it is typed."""
        places = {"--archive": self._state.path, "--data": data, "--checkpoint": checkpoint}
        words = [word for option, path in places.items() for word in (option, path)]
        others = " with its other options" if self._wish.text() or self._settings else ""
        return shlex.join(["kbroker", "pipeline", "restore", *words]) + others

    def _check_names(self) -> None:
        for plan in self._plans:
            fault = topic_name_fault(plan.target.topic)
            if fault is not None:
                raise PipelineError(
                    f"'{plan.target.topic}' cannot be the name of a topic: {fault}; give another "
                    f"one with --rename {plan.source.topic}=NAME",
                    ExitCode.USAGE,
                )


def _check_apart(checkpoint: str, data: str) -> None:
    """PipelineError if one lies in the other: both are directories of their own."""
    places = [os.path.realpath(path) for path in (checkpoint, data)]
    if os.path.commonpath(places) in places:
        raise PipelineError(
            f"the checkpoint {checkpoint} and the data directory {data} lie in each other: give "
            "--checkpoint a directory beside it",
            ExitCode.USAGE,
        )


def _write_tree(note: RestoreNote, home: str) -> None:
    topics = [
        TopicWithLogs(
            name=topic.name,
            topic_id=topic.topic_id,
            leader_epochs=topic.leader_epochs,
            settings=topic.settings,
        )
        for topic in note.topics
    ]
    try:
        writing = write_tree(RealFileSystem(), home, cluster_id_of(note.job_id), BROKER_ID, topics)
        asyncio.run(writing)
    except TreeUnavailableError as error:
        raise PipelineError(f"{home} cannot be written: {error}; run again") from error


def _report(tasks: Sequence[LogTask], results: Sequence[TaskResult], output: str) -> None:
    found: dict[TopicPartition, dict[str, object]] = {}
    for task, result in zip(tasks, results, strict=True):
        found[task.log.partition] = {
            "topic": task.log.partition.topic,
            "partition": task.log.partition.partition,
            "start_offset": task.log.start_offset,
            "end_offset": task.log.end_offset,
            "rows": result.rows_before + result.rows,
        }
    print_rows([found[partition] for partition in sorted(found)], REPORT_COLUMNS, output)
