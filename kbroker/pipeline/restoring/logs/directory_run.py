"""A restore into a data directory, from the checks to the report, with the directory's owner and
metadata.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kbroker.client.wall_clock import unix_now_ms
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.restoring.logs.log_restore import LogEncoding, LogRestore
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
from kbroker.pipeline.restoring.restore_plan import RestorePlan
from kbroker.pipeline.restoring.restore_tasks import RestoreTasks
from kbroker.pipeline.restoring.task_board import BOARD, TaskBoard
from kbroker.pipeline.spark_job.batch import JobReport
from kbroker.pipeline.spark_job.checkpoint import Checkpoint, JobIdentity, PlacesElsewhere
from kbroker.pipeline.spark_job.job_events import JobEvents
from kbroker.pipeline.spark_job.offsets import OffsetRange
from kbroker.topic_name import topic_name_fault
from kbroker.zk.nodes.topic_ops import TopicWithLogs
from kbroker.zk.tree import TreeUnavailableError
from kbroker.zk.written_tree import write_tree


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryRun:
    """A restore into the data directory `data`. The `settings` win over those in the archive."""

    plan: RestorePlan
    data: str
    checkpoint: str
    settings: Mapping[str, str]
    how: LogEncoding

    def run(self, spark: Any, events: JobEvents) -> JobReport:
        """Write what is not there yet; the report has no partitions if all was. Raises
        PipelineError.
        """
        path = os.path.abspath(self.checkpoint)
        directory, held = RestoredDirectory(os.path.abspath(self.data)), Checkpoint(path)
        self._check_names()
        _check_apart(path, directory.path)
        state, partitions = self.plan.state, self.plan.partitions
        topics = noted_topics(state, partitions, self.settings)
        with held.held():
            identity = self._identity(directory)
            known = held.read(identity)
            directory.stage(known.job_id if known is not None else None)
            with directory.held():
                job = held.claim(identity, PlacesElsewhere())
                stage = directory.stage(job.job_id)
                tasks = RestoreTasks(TaskBoard(f"{path}/{BOARD}"), self.plan.rows, "batch")
                if stage is Stage.WHOLE:
                    directory.clear()
                    events.note(
                        f"{self.data} is whole, as an earlier run left it: nothing to restore"
                    )
                    return tasks.report({}, {})
                if stage is Stage.NEW:
                    command = self._command(directory.path, path)
                    directory.begin(RestoreNote(job_id=job.job_id, command=command, topics=topics))
                note = directory.note()
                check_reaches(state, note)
                for sentence in expired_since(state, note):
                    events.note(f"warning: {sentence}")
                restore = LogRestore(
                    archive=state.path,
                    directory=directory,
                    note=note,
                    plans=partitions,
                    choice=self.plan.choice,
                    how=self.how,
                )
                return self._write(restore, tasks, spark, events)

    def _write(
        self, restore: LogRestore, tasks: RestoreTasks, spark: Any, events: JobEvents
    ) -> JobReport:
        for sentence in restore.warnings(unix_now_ms()):
            events.note(f"warning: {sentence}")
        logs: list[LogTask] = []

        def begun(at_once: int) -> list[LogTask]:
            logs.extend(restore.tasks(str(tasks.board.directory), at_once))
            return logs

        tasks.run(spark, self.plan.size_bytes, events, restore_log, begun)
        if tasks.is_complete:
            restore.directory.finish(restore.note, partial(_write_tree, restore.note))
        rows = {
            task.log.partition: result.rows_before + result.rows
            for task, result in zip(logs, tasks.results, strict=True)
        }
        ranges = {
            task.log.partition: OffsetRange(task.log.start_offset, task.log.end_offset)
            for task in logs
        }
        return tasks.report(ranges, rows)

    def _identity(self, directory: RestoredDirectory) -> JobIdentity:
        settings = ",".join(f"{name}={value}" for name, value in sorted(self.settings.items()))
        choice = [self.plan.choice.text(), f"settings={settings}" if settings else ""]
        return JobIdentity(
            kind="restore",
            name="restore",
            source=" ".join(["archive", self.plan.state.archive_id, *filter(None, choice)]),
            target=f"data directory {directory.path}",
        )

    def _command(self, data: str, checkpoint: str) -> str:
        """Return the line that goes on with it, wherever it is typed."""
        places = {"--archive": self.plan.state.path, "--data": data, "--checkpoint": checkpoint}
        words = [word for option, path in places.items() for word in (option, path)]
        others = " with its other options" if self.plan.choice.text() or self.settings else ""
        return shlex.join(["kbroker", "pipeline", "restore", *words]) + others

    def _check_names(self) -> None:
        for plan in self.plan.partitions:
            fault = topic_name_fault(plan.target.topic)
            if fault is not None:
                raise PipelineError(
                    f"'{plan.target.topic}' cannot be the name of a topic: {fault}; give another "
                    f"one with --rename {plan.source.topic}=NAME",
                    ExitCode.USAGE,
                )


def _check_apart(checkpoint: str, data: str) -> None:
    """Raise PipelineError if one lies in the other: both are directories of their own."""
    places = [os.path.realpath(path) for path in (checkpoint, data)]
    if os.path.commonpath(places) in places:
        raise PipelineError(
            f"the checkpoint {checkpoint} and the data directory {data} lie in each other: give "
            "--checkpoint a directory beside it",
            ExitCode.USAGE,
        )


def _write_tree(note: RestoreNote, home: str) -> None:
    """Write the metadata of the noted topics as a broker does. Raises PipelineError."""
    topics = [
        TopicWithLogs(
            name=topic.name,
            topic_id=topic.topic_id,
            leader_epochs=topic.leader_epochs,
            settings=topic.settings,
        )
        for topic in note.topics
    ]
    cluster_id, now_ms = cluster_id_of(note.job_id), unix_now_ms()
    try:
        asyncio.run(write_tree(RealFileSystem(), home, cluster_id, BROKER_ID, topics, now_ms))
    except TreeUnavailableError as error:
        raise PipelineError(f"{home} cannot be written: {error}; run again") from error
