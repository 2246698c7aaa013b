"""A restore into topics, from the checks to the report: those that are missing are made."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.topic_changes import made_topics
from kbroker.client.wall_clock import unix_now_ms
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.restoring.restore_plan import RestorePlan
from kbroker.pipeline.restoring.restore_tasks import RestoreTasks
from kbroker.pipeline.restoring.topics.moved_groups import Runs, move_groups, places
from kbroker.pipeline.restoring.topics.offset_map import OffsetMap
from kbroker.pipeline.restoring.topics.restore_checkpoint import RestoreCheckpoint
from kbroker.pipeline.restoring.topics.topic_restore import TopicRestore, TopicTargets
from kbroker.pipeline.restoring.topics.topic_task import restore_partition
from kbroker.pipeline.spark_job.batch import JobReport
from kbroker.pipeline.spark_job.checkpoint import Checkpoint, JobIdentity, PlacesElsewhere
from kbroker.pipeline.spark_job.job_events import JobEvents
from kbroker.pipeline.spark_job.offsets import OffsetRange
from kbroker.wording import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsRun:
    """A restore into the topics of a cluster."""

    plan: RestorePlan
    checkpoint: str
    targets: TopicTargets

    def run(self, spark: Any, events: JobEvents) -> JobReport:
        """Write what is missing. Raises PipelineError, ClientError, KafkaError and OSError."""
        path = os.path.abspath(self.checkpoint)
        held, kept = Checkpoint(path), RestoreCheckpoint(path)
        state, plans, choice = self.plan.state, self.plan.partitions, self.plan.choice
        with closing(ClusterLinks(self.targets.bootstrap)) as links, held.held():
            identity = self._identity(links)
            held.read(identity)
            restore = TopicRestore(state, plans, choice, self.targets, kept)
            self._make_missing(links, restore, events)  # a refused run claims nothing
            job_id = held.claim(identity, PlacesElsewhere()).job_id
            restore.claim_topics(links)
            for sentence in restore.warnings(links, unix_now_ms()):
                events.note(f"warning: {sentence}")
            tasks = RestoreTasks(restore.board, self.plan.rows, "transaction")
            begun = partial(restore.tasks, job_id)
            tasks.run(spark, self.plan.size_bytes, events, restore_partition, begun)
            runs = {plan.target: OffsetMap(kept.maps, plan.target).runs() for plan in plans}
            report = tasks.report(
                {
                    target: OffsetRange(
                        found[0].target_offset, found[-1].target_offset + found[-1].records
                    )
                    for target, found in runs.items()
                    if found
                },
                {target: sum(run.records for run in found) for target, found in runs.items()},
            )
            if tasks.is_complete:
                report = self._with_groups(links, runs, events, report)
                restore.end(links, job_id)
        return report

    def _make_missing(self, links: ClusterLinks, restore: TopicRestore, events: JobEvents) -> None:
        for topic in restore.prepare(links):
            for refusal in made_topics(
                links,
                [topic.name],
                topic.settings,
                events.note,
                partitions=topic.partitions,
                replication_factor=self.targets.replication_factor,
            ):
                raise PipelineError(refusal.sentence)

    def _identity(self, links: ClusterLinks) -> JobIdentity:
        return JobIdentity(
            kind="restore",
            name="restore",
            source=f"archive {self.plan.state.archive_id} {self.plan.choice.text()}".strip(),
            target=f"cluster {links.describe([]).cluster_id}",
        )

    def _with_groups(
        self, links: ClusterLinks, runs: Runs, events: JobEvents, report: JobReport
    ) -> JobReport:
        """Move the groups of the archive, and report how many, and which were refused."""
        if not self.targets.moves_groups:
            return report
        offsets = places(self.plan.state.group_offsets, self.plan.partitions, runs)
        found = move_groups(links, offsets, runs)
        refused = tuple(group for group in found if group.refusal is not None)
        moved = sum(1 for group in found if group.changed)
        if moved:
            events.note(f"offsets of {counted(moved, 'group')} moved")
        for group in refused:
            events.note(
                f"the offsets of group {group.name} were not moved: {group.refusal}; run again"
            )
        refused_groups = tuple(group.name for group in refused)
        return replace(report, moved_groups=moved, refused_groups=refused_groups)
