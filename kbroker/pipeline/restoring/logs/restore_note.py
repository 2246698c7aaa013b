"""The plan of a restore into a data directory, settled when it begins and noted there: the
directory's broker and cluster, its topics, and the offsets of each log. Draws ids; otherwise pure.

Law: a run that goes on takes all of this from the note. So an archive that grows meanwhile, or
loses files, changes neither ids nor where logs begin and end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID, uuid4

import msgspec

from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.topic_config import (
    KEEP_ALL,
    TopicConfig,
    for_one_replica,
    usable_overrides,
    validate_overrides,
)
from kbroker.errors import KafkaError
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState, missing_by_reason
from kbroker.pipeline.archiving.manifests.manifest import EXPIRED
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.restoring.restore_plan import PartitionPlan, partition_count
from kbroker.wording import uuid_text

BROKER_ID: Final = 0  # of the directory that is made


class NotedLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log to write, of offsets [start, end); `leader_epoch` is that of all of its records."""

    topic: str  # of the archive
    partition: int
    start_offset: int
    end_offset: int
    leader_epoch: int
    expired: int | None = None  # records the archive had given up; None in notes of old versions

    @property
    def source(self) -> TopicPartition:
        """The partition of the archive."""
        return TopicPartition(self.topic, self.partition)


class NotedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic to make. Partitions without a log begin empty."""

    name: str
    topic_id: UUID
    partitions: int
    settings: dict[str, str]
    is_known: bool  # the archive knows its settings
    logs: tuple[NotedLog, ...]

    @property
    def leader_epochs(self) -> tuple[int, ...]:
        """Return for each partition the epoch that it goes on with: above those of its records."""
        known = {log.partition: log.leader_epoch + 1 for log in self.logs}
        return tuple(known.get(number, 0) for number in range(self.partitions))

    def config(self) -> TopicConfig:
        """Return its settings over the defaults of a broker."""
        return TopicConfig.from_overrides(KafkaConfig(), self.settings)


class RestoreNote(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is to be made. `command` resumes the restore."""

    job_id: str
    command: str
    topics: tuple[NotedTopic, ...]

    def logs(self) -> Iterator[tuple[NotedTopic, NotedLog, TopicPartition]]:
        """Yield each log with its topic and its target partition."""
        for topic in self.topics:
            for log in topic.logs:
                yield topic, log, TopicPartition(topic.name, log.partition)


def cluster_id_of(job_id: str) -> str:
    """Return the id of the cluster that the directory of a restore belongs to, in Kafka's form: its
    meta.properties then mark the directory as the work of this job.
    """
    return uuid_text(UUID(job_id)).replace("-", "_")


def noted_topics(
    state: ArchiveState, plans: Sequence[PartitionPlan], given: Mapping[str, str]
) -> tuple[NotedTopic, ...]:
    """Return the topics of a plan; settings that were `given` override those in the archive.

    Raises PipelineError for a topic that cannot be made.
    """
    by_target: dict[str, list[PartitionPlan]] = {}
    for plan in plans:
        by_target.setdefault(plan.target.topic, []).append(plan)
    return tuple(_topic(state, name, found, given) for name, found in sorted(by_target.items()))


def check_reaches(state: ArchiveState, note: RestoreNote) -> None:
    """Raise PipelineError if an archive, as an older copy, ends before a log that it is to make."""
    for _, log, _ in note.logs():
        end_offset = state.end_offset(log.source)
        if end_offset is None or end_offset < log.end_offset:
            has = f"has nothing of {log.source}"
            if end_offset is not None:
                has = f"ends at offset {end_offset} of {log.source}"
            raise PipelineError(
                f"the archive {state.path} {has}, and ended at {log.end_offset} when this restore "
                "began: it is an older copy; put the newer one back, or give another --data and "
                "--checkpoint"
            )


def expired_since(state: ArchiveState, note: RestoreNote) -> Iterator[str]:
    """Yield a sentence on each log whose archive has given up records since it was noted."""
    for _, log, _ in note.logs():
        now = _expired(state, log.source, log.end_offset)
        if log.expired is not None and now > log.expired:
            yield (
                f"{now - log.expired} records of {log.source} have expired from the archive since "
                "this restore began: those that no earlier run had written will be missing"
            )


def _topic(
    state: ArchiveState, name: str, plans: Sequence[PartitionPlan], given: Mapping[str, str]
) -> NotedTopic:
    source = plans[0].source.topic
    archived = state.topic_settings.get(source)
    known = KEEP_ALL if archived is None else usable_overrides(archived)
    settings = {**known, **given}
    try:
        validate_overrides(settings)
    except KafkaError as error:
        raise PipelineError(
            f"topic {name} cannot have such settings: {error.message}; give others with --setting",
            ExitCode.USAGE,
        ) from error
    return NotedTopic(
        name=name,
        topic_id=_topic_id(state, source, name),
        partitions=partition_count(state, source),
        settings=for_one_replica(settings),
        is_known=archived is not None,
        logs=tuple(_log(state, plan.source) for plan in plans),
    )


def _topic_id(state: ArchiveState, source: str, name: str) -> UUID:
    """Return the id that the topic had; a topic of another name is another topic."""
    known = state.topic_ids.get(source)
    return UUID(known) if known is not None and name == source else uuid4()


def _log(state: ArchiveState, source: TopicPartition) -> NotedLog:
    """Return the log's bounds, whichever records are wanted: no offset is given out twice."""
    end_offset = state.ranges[source][-1].end_offset
    firsts = [entry.first_offset for entry in state.entries(source)]
    epoch = state.leader_epochs.get(source)
    return NotedLog(
        topic=source.topic,
        partition=source.partition,
        start_offset=min(firsts, default=end_offset),
        end_offset=end_offset,
        leader_epoch=max(epoch.leader_epoch, 0) if epoch is not None else 0,
        expired=_expired(state, source, end_offset),
    )


def _expired(state: ArchiveState, source: TopicPartition, end_offset: int) -> int:
    holes = [hole for hole in state.holes.get(source, ()) if hole.first_offset < end_offset]
    return missing_by_reason(holes)[EXPIRED]
