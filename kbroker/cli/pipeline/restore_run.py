"""Runs a restore for a person: topics that are missing, progress, Ctrl-C, report and exit code."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from kbroker.cli.connection import ExitCode
from kbroker.cli.output import counted, print_rows, say
from kbroker.cli.pipeline.job_display import duration_text
from kbroker.cli.pipeline.job_signals import exit_code, leave, stopping
from kbroker.cli.pipeline.session_options import SessionOptions
from kbroker.cli.refusals import refuse
from kbroker.cli.terminal_line import TerminalLine
from kbroker.cli.topic_changes import made_topics
from kbroker.client.cluster_links import ClusterLinks
from kbroker.pipeline.archive.manifests.archive_state import ArchiveState
from kbroker.pipeline.restore.moved_groups import move_groups, places
from kbroker.pipeline.restore.offset_map import OffsetMap
from kbroker.pipeline.restore.restore_checkpoint import MAPS, RestoreCheckpoint
from kbroker.pipeline.restore.restore_plan import PartitionPlan, RestoreWish
from kbroker.pipeline.restore.task_board import TaskBoard
from kbroker.pipeline.restore.topic_restore import (
    MissingTopic,
    TopicRestore,
    TopicTargets,
    run_tasks,
)
from kbroker.pipeline.restore.topic_task import TopicResult
from kbroker.pipeline.spark_job.checkpoint import Checkpoint, JobIdentity
from kbroker.pipeline.spark_job.offsets import Offsets
from kbroker.pipeline.spark_job.session import running_session
from kbroker.pipeline.spark_job.spread import InProcess, OverSpark, Spread

_REPORT_COLUMNS = ("topic", "partition", "start_offset", "end_offset", "rows")
_LOOK_S = 0.5
_PLAIN_INTERVAL_S = 10.0


class RestoreRun:
    """One call, from the checks to the report."""

    def __init__(
        self,
        state: ArchiveState,
        plans: Sequence[PartitionPlan],
        wish: RestoreWish,
        targets: TopicTargets,
    ) -> None:
        self._state, self._plans, self._wish, self._targets = state, plans, wish, targets
        self._stopped_by: list[int] = []
        self._board: TaskBoard | None = None

    def run(self, checkpoint: str, session: SessionOptions | None, output: str) -> int:
        """The exit code; without a session the work is done in this process.

        Raises PipelineError, ClientError, KafkaError, OSError and CommandError.
        """
        path = os.path.abspath(checkpoint)
        held, kept = Checkpoint(path), RestoreCheckpoint(path)
        with closing(ClusterLinks(self._targets.bootstrap)) as links, held.held():
            identity = self._identity(links)
            held.read(identity)
            restore = TopicRestore(self._state, self._plans, self._wish, self._targets, kept)
            missing = restore.prepare(links)
            job_id = held.claim(identity, _Beginning()).job_id
            self._make_topics(links, missing)
            restore.claim_topics(links)
            self._board = restore.board
            self._board.clear()
            begun_s = time.monotonic()
            with _spread(session) as (spread, at_once), self._watched(self._board):
                results = run_tasks(spread, restore.tasks(job_id, at_once))
            is_at_end = all(result.is_complete for result in results)
            refused = self._move_groups(links, kept) if is_at_end else False
            if is_at_end:
                restore.end(links, job_id)
            self._report(kept, output)
            self._say_end(results, time.monotonic() - begun_s, checkpoint)
        return 1 if refused else exit_code(self._stopped_by, is_at_end=is_at_end)

    def stop(self) -> None:
        """End after the transactions that are open."""
        if self._board is not None:
            self._board.stop()

    def cut(self) -> None:
        """End at once: what is open is aborted by the next run."""
        by_term = self._stopped_by[:1] == [signal.SIGTERM]
        leave(ExitCode.TERMINATED if by_term else ExitCode.INTERRUPTED)

    def _identity(self, links: ClusterLinks) -> JobIdentity:
        return JobIdentity(
            kind="restore",
            name="restore",
            source=f"archive {self._state.archive_id} {self._wish.text()}".strip(),
            target=f"cluster {links.describe([]).cluster_id}",
        )

    def _move_groups(self, links: ClusterLinks, kept: RestoreCheckpoint) -> bool:
        """Whether one was refused."""
        if not self._targets.moves_groups:
            return False
        runs = {plan.target: OffsetMap(kept.maps, plan.target).runs() for plan in self._plans}
        moved = move_groups(links, places(self._state.group_offsets, self._plans, runs))
        refused = [group for group in moved if group.refusal is not None]
        if moved:
            say(f"offsets of {counted(len(moved) - len(refused), 'group')} moved")
        for group in refused:
            say(f"the offsets of group {group.name} were not moved: {group.refusal}; run again")
        return bool(refused)

    def _make_topics(self, links: ClusterLinks, missing: Sequence[MissingTopic]) -> None:
        for topic in missing:
            failures = made_topics(
                links,
                [topic.name],
                topic.settings,
                partitions=topic.partitions,
                replication_factor=self._targets.replication_factor,
            )
            refuse(failures)

    @contextmanager
    def _watched(self, board: TaskBoard) -> Iterator[None]:
        """Progress on standard error, and signals."""
        display = _Display(board, sum(plan.rows for plan in self._plans))
        try:
            with stopping(self, "transaction") as self._stopped_by:
                yield
        finally:
            display.end()

    def _report(self, kept: RestoreCheckpoint, output: str) -> None:
        rows = [_row(plan, OffsetMap(kept.maps, plan.target)) for plan in self._plans]
        print_rows(rows, _REPORT_COLUMNS, output)

    def _say_end(self, results: Sequence[TopicResult], seconds: float, checkpoint: str) -> None:
        written = sum(result.rows for result in results)
        ending = "reached the end" if all(each.is_complete for each in results) else "stopped"
        rate = written / max(seconds, 1e-6)
        say(
            f"restore {ending}: {written:,} rows, {duration_text(seconds)}, {rate:,.0f} rows/s; "
            f"offset maps are in {checkpoint.rstrip('/')}/{MAPS}"
        )


def _row(plan: PartitionPlan, offset_map: OffsetMap) -> dict[str, object]:
    runs = offset_map.runs()
    return {
        "topic": plan.target.topic,
        "partition": plan.target.partition,
        "start_offset": runs[0].target_offset if runs else None,
        "end_offset": runs[-1].target_offset + runs[-1].records if runs else None,
        "rows": sum(run.records for run in runs),
    }


class _Beginning:
    """What a checkpoint asks a source: an archive is read from its beginning."""

    def earliest(self) -> Offsets:
        """No offsets: each partition has its own group."""
        return {}

    def topic_ids(self) -> Mapping[str, str]:
        """None: the archive has an id."""
        return {}


class _Display:
    """A line on standard error from a thread of its own: on a terminal it is written over,
    elsewhere it comes every 10 s.
    """

    def __init__(self, board: TaskBoard, rows: int) -> None:
        self._board, self._rows = board, rows
        self._begun_s = time.monotonic()
        first_s = self._begun_s + (0 if sys.stderr.isatty() else _PLAIN_INTERVAL_S)
        self._line = TerminalLine(sys.stderr, first_s, _PLAIN_INTERVAL_S)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._show, name="progress", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Take the line away."""
        self._is_over.set()
        self._thread.join()
        self._line.end()

    def _show(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            now_s = time.monotonic()
            if not self._line.is_due(now_s):
                continue
            rows = self._board.rows()
            rate = rows / max(now_s - self._begun_s, 1e-6)
            left = max(self._rows - rows, 0)
            parts = [f"{rows:,} rows", f"{rate:,.0f} rows/s", f"at most {left:,} to go"]
            if rate >= 1:
                parts.append(f"{duration_text(left / rate)} left")
            self._line.show(f"restore: {', '.join(parts)}", now_s)


@contextmanager
def _spread(session: SessionOptions | None) -> Iterator[tuple[Spread, int]]:
    """Yield who runs the tasks, and how many at once."""
    if session is None:
        yield InProcess(), 1
        return
    say(f"restoring with Spark, master {session.master}")
    with running_session(session.settings("kbroker restore", needs_connector=False)) as spark:
        yield OverSpark(spark), spark.sparkContext.defaultParallelism
