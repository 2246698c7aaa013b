"""Chooses the topics that a mirror copies, and finds what those of the target lack.

Law: topics with records that are not the mirror's are written only if the user asked for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kbroker.client.cluster_configs import Resource, describe_each, own_settings
from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks, TopicView
from kbroker.client.consumer_groups import committed_entries
from kbroker.client.topic_figures import leaders_in, offsets_at
from kbroker.config.config_resources import ResourceType
from kbroker.errors import ErrorCode, KafkaError, Trouble
from kbroker.near_names import did_you_mean
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.mirroring.mirror_checkpoint import MirrorCheckpoint
from kbroker.pipeline.mirroring.offsets_topic import OFFSETS_SETTINGS, OFFSETS_TOPIC
from kbroker.pipeline.mirroring.topic_plan import (
    BY_PRODUCER,
    TIME_TYPE,
    TopicChange,
    TopicForm,
    plan_topics,
    wanted_settings,
)
from kbroker.pipeline.restoring.topics.others_records import has_records
from kbroker.record.compression import NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorChoice:
    """The topics to copy, and how. Without names the pattern chooses from all topics."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)  # win over those of the source
    appends: bool = False  # into topics that have records
    allows_loss: bool = False
    compression: int = NONE

    def text(self) -> str:
        """Describe the choice for the identity of a checkpoint."""
        return f"topics {','.join(sorted(self.topics))}" if self.topics else f"like {self.pattern}"

    def chooses(self, view: TopicView) -> bool:
        """Return whether a topic is copied."""
        if view.code is not ErrorCode.NONE or view.is_internal or view.name == OFFSETS_TOPIC:
            return False
        if self.topics:
            return view.name in self.topics
        return re.fullmatch(self.pattern, view.name) is not None


class MirroredTopics:
    """The source's topics of a round. Raises PipelineError, ClientError, KafkaError and OSError."""

    def __init__(
        self,
        readers: ClusterLinks,
        writers: ClusterLinks,
        choice: MirrorChoice,
        checkpoint: MirrorCheckpoint,
        group: str,
    ) -> None:
        self.views: dict[str, TopicView] = {}
        self._readers, self._writers = readers, writers
        self._wish, self._checkpoint, self._group = choice, checkpoint, group
        self._forms: list[TopicForm] = []

    def changes(self) -> list[TopicChange]:
        """Look at both clusters; return what the topics of the target lack."""
        there = self._readers.topics(None)
        self.views = {view.name: view for view in there if self._wish.chooses(view)}
        missing = sorted(set(self._wish.topics) - self.views.keys())
        if missing:
            raise _not_copied(missing[0], there)
        self._forms = _forms(self._readers, self.views.values())
        copies = {
            view.name: view
            for view in self._writers.topics(None)
            if view.name in self.views or view.name == OFFSETS_TOPIC
        }
        self._check_new(copies)
        targets = {form.name: form for form in _forms(self._writers, copies.values())}
        changes = plan_topics(
            self._forms, targets, self._checkpoint.settings(), self._wish.settings
        )
        if OFFSETS_TOPIC not in copies:
            made = TopicChange(name=OFFSETS_TOPIC, is_new=True, partitions=1, sets=OFFSETS_SETTINGS)
            changes.append(made)
        return changes

    def changed(self) -> None:
        """Note that the target's topics are as wanted, and that they are the mirror's."""
        wanted = {
            form.name: settings
            for form in self._forms
            if (settings := wanted_settings(form, self._wish.settings)) is not None
        }
        self._checkpoint.claim(self.views)
        self._checkpoint.note_settings(wanted)

    def _check_new(self, there: Mapping[str, TopicView]) -> None:
        """Raise PipelineError if a topic has records that are not the mirror's."""
        new = self.views.keys() - self._checkpoint.topics()
        if new and not self._wish.appends:
            entries = committed_entries(self._writers, self._group)
            known = {partition.topic for partition in entries}
            self._refuse_full({name: there[name] for name in (new - known) & there.keys()})

    def _refuse_full(self, views: Mapping[str, TopicView]) -> None:
        leaders = leaders_in(views.values())
        starts = offsets_at(self._writers, leaders, EARLIEST)
        ends = offsets_at(self._writers, leaders, LATEST)
        for partition in sorted(leaders):
            start, end = starts.get(partition, 0), ends.get(partition, 0)
            view = views[partition.topic]
            if end > start and has_records(self._writers, view, partition, start, end):
                raise PipelineError(
                    f"topic {partition.topic} of the target has records already, in partition "
                    f"{partition.partition} up to offset {end}: give --append to write behind them"
                )


def _not_copied(name: str, there: Iterable[TopicView]) -> PipelineError:
    """Say why a topic that was named is not among those of the source."""
    views = {view.name: view for view in there}
    view = views.get(name)
    if view is None:
        hint = did_you_mean(name, views)
        return PipelineError(f"the source has no topic {name}{hint}", trouble=Trouble.UNKNOWN_TOPIC)
    if view.code is not ErrorCode.NONE:
        return PipelineError(f"topic {name} of the source cannot be copied: {view.code.name}")
    reason = "the mirrors' own" if name == OFFSETS_TOPIC else "the brokers' own"
    return PipelineError(
        f"topic {name} is {reason}, and each cluster has its own: leave it out of --topics; a "
        "mirror moves groups by itself",
        ExitCode.USAGE,
    )


def _forms(links: ClusterLinks, views: Iterable[TopicView]) -> list[TopicForm]:
    counts = {view.name: len(view.leaders) for view in views}
    resources = [Resource(ResourceType.TOPIC, name) for name in sorted(counts)]
    found: list[TopicForm] = []
    for (_, name), settings in describe_each(links, resources).items():
        told = [] if isinstance(settings, KafkaError) else settings
        own = None if isinstance(settings, KafkaError) else own_settings(settings)
        by_broker = any(each.name == TIME_TYPE and each.value != BY_PRODUCER for each in told)
        found.append(
            TopicForm(name=name, partitions=counts[name], settings=own, replaces_times=by_broker)
        )
    return found
