"""A restore into the topics of a cluster, on the driver's side: what it refuses, the topics it
needs, the tasks it spreads, and what stays.

Law: records are written only into topics whose ids are in the checkpoint: those that were empty,
such as those that this restore makes, and those that the user allowed by `appends`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_configs import Resource, describe_each
from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks, TopicView
from kbroker.client.consumer_groups import delete_group
from kbroker.config.config_resources import ResourceType
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.topic_config import TopicConfig, usable_overrides
from kbroker.errors import KafkaError
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.restoring.restore_plan import PartitionPlan, RestoreChoice, partition_count
from kbroker.pipeline.restoring.short_retention import doomed_topics
from kbroker.pipeline.restoring.task_board import TaskBoard
from kbroker.pipeline.restoring.topics.others_records import has_records
from kbroker.pipeline.restoring.topics.restore_checkpoint import RestoreCheckpoint
from kbroker.pipeline.restoring.topics.topic_task import TopicTask
from kbroker.pipeline.restoring.topics.topic_writer import check_same
from kbroker.pipeline.restoring.wanted_rows import WantedRows
from kbroker.record.compression import NONE

_TIME_TYPE, _BY_BROKER = "message.timestamp.type", "LogAppendTime"  # the times of records stay
_KEEPING = ("retention.ms", "cleanup.policy")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTargets:
    """How topics are written. `settings` override those that the archive has of a topic."""

    bootstrap: str
    appends: bool = False  # into topics that have records
    settings: Mapping[str, str] = field(default_factory=dict)
    replication_factor: int = -1  # of new topics; -1: the cluster's
    compression: int = NONE
    moves_groups: bool = True  # lets those of the archive go on where they were
    bytes_per_s: float = 0.0  # of all tasks together; 0: unlimited


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingTopic:
    """A topic as it was when it was archived, as far as the archive knows."""

    name: str
    partitions: int
    settings: Mapping[str, str]


class TopicRestore:
    """One run; `prepare` before `run`."""

    def __init__(
        self,
        state: ArchiveState,
        plans: Sequence[PartitionPlan],
        choice: RestoreChoice,
        targets: TopicTargets,
        checkpoint: RestoreCheckpoint,
    ) -> None:
        self.board = TaskBoard(checkpoint.board)
        self._state = state
        self._plans = plans
        self._wish = choice
        self._targets = targets
        self._checkpoint = checkpoint

    def prepare(self, links: ClusterLinks) -> list[MissingTopic]:
        """Return the topics that are to be made before it runs.

        Raises PipelineError, ClientError, KafkaError and OSError.
        """
        claimed = self._checkpoint.topics()
        missing: list[MissingTopic] = []
        for name, plans in self._by_topic().items():
            view = links.ready_topic(name)
            if name in claimed:
                check_same(name, claimed[name], view)
            elif view is None:
                missing.append(self._missing(name, plans[0].source.topic))
            else:
                self._check_target(links, view, plans[0].source.topic)
        return missing

    def claim_topics(self, links: ClusterLinks) -> None:
        """Take the topics for this restore, now that all are there. Raises PipelineError if one
        cannot hold the records as they are, and the errors of `prepare`.
        """
        found: dict[str, UUID] = {}
        for name, plans in self._by_topic().items():
            view = links.ready_topic(name)
            has = set() if view is None else set(view.leaders)
            needed = max(plan.target.partition for plan in plans) + 1
            if not has.issuperset(plan.target.partition for plan in plans):
                raise PipelineError(
                    f"topic {name} has {len(has)} partitions, and {needed} are needed: "
                    f"`kbroker topic alter {name} --partitions {needed}` adds them"
                )
            if view is not None:
                found[name] = view.topic_id
        _check_times(links, found)
        self._checkpoint.claim(found)

    def warnings(self, links: ClusterLinks, now_ms: int) -> list[str]:
        """List what a person should know of the topics beforehand. Raises what `prepare` raises."""
        configs = {
            name: TopicConfig.from_overrides(KafkaConfig(), usable_overrides(settings))
            for name, settings in _settings_of(links, self._by_topic(), _KEEPING).items()
        }
        return [
            f"{name} has retention.ms={configs[name].retention_ms}, and gets older records: the "
            f"brokers delete segments of them within minutes, unless `kbroker topic alter {name} "
            "--config retention.ms=-1` comes first"
            for name in sorted(doomed_topics(self._plans, configs, now_ms))
        ]

    def tasks(self, job_id: str, at_once: int) -> list[TopicTask]:
        """Return the tasks, the largest partition first; `at_once` of them share the rate."""
        ordered = sorted(self._plans, key=lambda plan: -plan.size_bytes)
        sharing = max(min(at_once, len(ordered)), 1)
        reached = self._checkpoint.reached(plan.target for plan in ordered)
        topic_ids = self._checkpoint.topics()
        return [
            TopicTask(
                rows=WantedRows(self._state.path, plan, self._wish.wanted, self._wish.keys),
                bootstrap=self._targets.bootstrap,
                group=_group(job_id),
                maps=str(self._checkpoint.maps),
                board=str(self.board.directory),
                reached=reached[plan.target],
                topic_id=topic_ids[plan.target.topic],
                appends=self._targets.appends,
                compression=self._targets.compression,
                bytes_per_s=self._targets.bytes_per_s / sharing,
            )
            for plan in ordered
        ]

    def end(self, links: ClusterLinks, job_id: str) -> None:
        """Drop the group's place, as everything is written and the target need not remember it."""
        self._checkpoint.note_end([plan.target for plan in self._plans])
        with suppress(ClientError, KafkaError, OSError):  # else the group expires
            delete_group(links, _group(job_id))

    def _by_topic(self) -> dict[str, list[PartitionPlan]]:
        found: dict[str, list[PartitionPlan]] = {}
        for plan in self._plans:
            found.setdefault(plan.target.topic, []).append(plan)
        return found

    def _missing(self, name: str, source: str) -> MissingTopic:
        known = dict(self._state.topic_settings.get(source) or {})
        known.pop(_TIME_TYPE, None)
        return MissingTopic(
            name=name,
            partitions=partition_count(self._state, source),
            settings={**known, **self._targets.settings},
        )

    def _check_target(self, links: ClusterLinks, view: TopicView, source: str) -> None:
        if self._targets.appends:
            return
        starts = links.offsets(view, list(view.leaders), EARLIEST)
        ends = links.offsets(view, list(view.leaders), LATEST)
        for number, end in sorted(ends.items()):
            place = TopicPartition(view.name, number)
            if end > starts[number] and has_records(links, view, place, starts[number], end):
                raise PipelineError(
                    f"topic {view.name} has records already, in partition {number} up to offset "
                    f"{end}: give --append to write behind them, --rename {source}=NAME to write "
                    "elsewhere, or the --checkpoint of the run that wrote them, to go on"
                )


def _group(job_id: str) -> str:
    return f"kbroker-restore-{job_id}"


def _check_times(links: ClusterLinks, topics: Iterable[str]) -> None:
    for name, settings in _settings_of(links, topics, [_TIME_TYPE]).items():
        if settings.get(_TIME_TYPE) == _BY_BROKER:
            raise PipelineError(
                f"topic {name} has {_TIME_TYPE}={_BY_BROKER}, and all records would get "
                f"the time of the restore: `kbroker topic alter {name} --config "
                f"{_TIME_TYPE}=CreateTime` lets them keep theirs"
            )


def _settings_of(
    links: ClusterLinks, topics: Iterable[str], names: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Return the settings of each topic; a topic whose settings may not be read is missing."""
    resources = [Resource(ResourceType.TOPIC, name) for name in topics]
    return {
        resource.name: {each.name: each.value for each in settings if each.value is not None}
        for resource, settings in describe_each(links, resources, names).items()
        if not isinstance(settings, KafkaError)
    }
