"""A restore into a data directory, on the driver's side: its tasks and its warnings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kbroker.config.topic_config import KEEP_ALL
from kbroker.model import TopicPartition
from kbroker.pipeline.restoring.logs.log_task import LogTask
from kbroker.pipeline.restoring.logs.log_writing import WrittenLog
from kbroker.pipeline.restoring.logs.restore_note import (
    NotedLog,
    NotedTopic,
    RestoreNote,
    cluster_id_of,
)
from kbroker.pipeline.restoring.logs.restored_directory import RestoredDirectory
from kbroker.pipeline.restoring.restore_plan import PartitionPlan, RestoreChoice
from kbroker.pipeline.restoring.short_retention import doomed_topics
from kbroker.pipeline.restoring.wanted_rows import WantedRows
from kbroker.record.compression import NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEncoding:
    """How logs are written."""

    compression: int = NONE
    bytes_per_s: float = 0.0  # of all tasks together; 0: unlimited


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRestore:
    """One run. `archive` is the path of the archive."""

    archive: str
    directory: RestoredDirectory
    note: RestoreNote
    plans: Sequence[PartitionPlan]
    choice: RestoreChoice
    how: LogEncoding

    def tasks(self, board: str, at_once: int) -> list[LogTask]:
        """Return a task for each noted log, the largest first; `at_once` of them share the rate."""
        by_source = {plan.source: plan for plan in self.plans}
        sharing = max(min(at_once, len(by_source)), 1)
        found = [
            LogTask(
                rows=WantedRows(
                    self.archive,
                    by_source[log.source],
                    replace(self.choice.wanted, end_offset=log.end_offset),
                    self.choice.keys,
                ),
                directory=self.directory.staging(target),
                cluster_id=cluster_id_of(self.note.job_id),
                settings=topic.settings,
                log=self._written(topic, log, target),
                board=board,
                bytes_per_s=self.how.bytes_per_s / sharing,
            )
            for topic, log, target in self.note.logs()
        ]
        return sorted(found, key=lambda task: -task.rows.plan.size_bytes)

    def warnings(self, now_ms: int) -> Iterator[str]:
        """Yield what a person should know of topics before a broker serves them."""
        configs = {topic.name: topic.config() for topic in self.note.topics}
        doomed = doomed_topics(self.plans, configs, now_ms)
        for topic in self.note.topics:
            config = configs[topic.name]
            if not topic.is_known and KEEP_ALL.items() <= topic.settings.items():
                yield (
                    f"{topic.name} keeps all records, as its settings are not known: give others "
                    "with --setting retention.ms=MS"
                )
            elif topic.name in doomed:
                yield (
                    f"{topic.name} has records that are older than its retention.ms: a broker "
                    "deletes segments of them within minutes, unless --setting retention.ms=-1 is "
                    "given"
                )
            elif config.is_deleted and config.retention_bytes >= 0:
                yield (
                    f"{topic.name} has retention.bytes={config.retention_bytes}: a broker deletes "
                    "what a partition has beyond that within minutes, unless --setting "
                    "retention.bytes=-1 is given"
                )

    def _written(self, topic: NotedTopic, log: NotedLog, target: TopicPartition) -> WrittenLog:
        return WrittenLog(
            partition=target,
            start_offset=log.start_offset,
            end_offset=log.end_offset,
            topic_id=topic.topic_id,
            leader_epoch=log.leader_epoch,
            codec=self.how.compression,
        )
