"""Runs a restore into topics for a person: those that are missing, and the report."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial

from kbroker.cli.pipeline.restore_tasks import REPORT_COLUMNS, RestoreTasks
from kbroker.cli.pipeline.session_options import SessionOptions
from kbroker.cli.shown.output import counted, print_rows, say
from kbroker.cli.topic.changes import made_topics, refuse_topics
from kbroker.client.cluster_links import ClusterLinks
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState
from kbroker.pipeline.restoring.restore_plan import PartitionPlan, RestoreWish
from kbroker.pipeline.restoring.topics.moved_groups import Runs, move_groups, places
from kbroker.pipeline.restoring.topics.offset_map import OffsetMap
from kbroker.pipeline.restoring.topics.offset_runs import OffsetRun
from kbroker.pipeline.restoring.topics.restore_checkpoint import MAPS, RestoreCheckpoint
from kbroker.pipeline.restoring.topics.topic_restore import MissingTopic, TopicRestore, TopicTargets
from kbroker.pipeline.restoring.topics.topic_task import restore_partition
from kbroker.pipeline.spark_job.checkpoint import Checkpoint, JobIdentity, PlacesElsewhere


class TopicsRun:
    """One call, from the checks to the report."""

    def __init__(
        self,
        state: ArchiveState,
        plans: Sequence[PartitionPlan],
        wish: RestoreWish,
        targets: TopicTargets,
    ) -> None:
        self._state, self._plans, self._wish, self._targets = state, plans, wish, targets

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
            self._make_topics(links, missing)  # a run that is refused claims nothing
            job_id = held.claim(identity, PlacesElsewhere()).job_id
            restore.claim_topics(links)
            for sentence in restore.warnings(links, time.time_ns() // 1_000_000):
                say(f"warning: {sentence}")
            rows = sum(plan.rows for plan in self._plans)
            tasks = RestoreTasks(restore.board, rows, "transaction")
            tasks.run(session, restore_partition, partial(restore.tasks, job_id))
            runs = {plan.target: OffsetMap(kept.maps, plan.target).runs() for plan in self._plans}
            refused = self._move_groups(links, runs) if tasks.is_at_end else False
            if tasks.is_at_end:
                restore.end(links, job_id)
            print_rows([_row(*each) for each in runs.items()], REPORT_COLUMNS, output)
            tasks.say_end(f"offset maps are in {checkpoint.rstrip('/')}/{MAPS}")
        return 1 if refused else tasks.exit_code

    def _identity(self, links: ClusterLinks) -> JobIdentity:
        return JobIdentity(
            kind="restore",
            name="restore",
            source=f"archive {self._state.archive_id} {self._wish.text()}".strip(),
            target=f"cluster {links.describe([]).cluster_id}",
        )

    def _move_groups(self, links: ClusterLinks, runs: Runs) -> bool:
        """Whether one was refused."""
        if not self._targets.moves_groups:
            return False
        found = move_groups(links, places(self._state.group_offsets, self._plans, runs), runs)
        refused = [group for group in found if group.refusal is not None]
        moved = sum(1 for group in found if group.changed)
        if moved:
            say(f"offsets of {counted(moved, 'group')} moved")
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
            refuse_topics(failures)


def _row(target: TopicPartition, runs: Sequence[OffsetRun]) -> dict[str, object]:
    return {
        "topic": target.topic,
        "partition": target.partition,
        "start_offset": runs[0].target_offset if runs else None,
        "end_offset": runs[-1].target_offset + runs[-1].records if runs else None,
        "rows": sum(run.records for run in runs),
    }
