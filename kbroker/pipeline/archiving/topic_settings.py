"""Asks for what topics are beside their records: their own settings, and how many partitions they
have. A restore needs both to make them again.

Law: no answer ends a job, since the records matter more; each topic is reported to a person once.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_configs import Resource, describe_each, own_settings
from kbroker.client.cluster_links import ClusterLinks
from kbroker.config.config_resources import ResourceType
from kbroker.errors import KafkaError
from kbroker.pipeline.spark_job.continuity import named_places

_ASK_AGAIN_S = 60.0  # a setting may change while a job runs for weeks


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldTopics:
    """Reported topics; unknown ones are missing. One with only defaults has no settings."""

    settings: Mapping[str, dict[str, str]] = field(default_factory=dict)
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    refusals: Mapping[str, str] = field(default_factory=dict)  # why settings are unknown


Ask = Callable[[Collection[str]], ToldTopics]


class TopicSettings:
    """Asks about topics when they appear, and again at most once a minute. Owned by one thread."""

    def __init__(self, ask: Ask, now_s: Callable[[], float] = time.monotonic) -> None:
        """Take `ask`, which raises ClientError, OSError and KafkaError if no broker answers."""
        self._ask = ask
        self._now_s = now_s
        self._due_s: dict[str, float] = {}
        self._noted: set[str] = set()

    def told(self, topics: Collection[str]) -> ToldTopics:
        """Ask about those of these topics that are due; nothing is returned for the others."""
        now_s = self._now_s()
        due = [topic for topic in sorted(topics) if self._due_s.get(topic, now_s) <= now_s]
        if not due:
            return ToldTopics()
        try:
            told = self._ask(due)
        except (ClientError, OSError, KafkaError) as error:
            return ToldTopics(refusals=dict.fromkeys(due, str(error)))  # the next batch asks again
        self._due_s |= dict.fromkeys(due, now_s + _ASK_AGAIN_S)
        return told

    def notes(self, refusals: Mapping[str, str]) -> list[str]:
        """Return sentences about topics with unknown settings, once for each topic of a run."""
        by_reason: defaultdict[str, list[str]] = defaultdict(list)
        for topic, reason in sorted(refusals.items()):
            if topic not in self._noted:
                by_reason[reason].append(topic)
        self._noted.update(refusals)
        return [
            f"the archive goes on without the settings of {named_places(topics)}: {reason}"
            for reason, topics in sorted(by_reason.items())
        ]


def ask_cluster(bootstrap: str, topics: Collection[str]) -> ToldTopics:
    """Ask any broker of a cluster. Raises ClientError and OSError if none answers."""
    settings: dict[str, dict[str, str]] = {}
    refusals: dict[str, str] = {}
    with closing(ClusterLinks(bootstrap)) as links:
        views = links.topics(topics)
        try:
            resources = [Resource(ResourceType.TOPIC, each) for each in sorted(topics)]
            for (_, topic), answer in describe_each(links, resources).items():
                if isinstance(answer, KafkaError):
                    refusals[topic] = answer.code.name
                else:
                    settings[topic] = own_settings(answer)
        except KafkaError as refusal:  # of a broker from before DescribeConfigs
            refusals = dict.fromkeys(topics, refusal.code.name)
    return ToldTopics(
        settings=settings,
        partition_counts={view.name: len(view.leaders) for view in views if view.leaders},
        refusals=refusals,
    )
