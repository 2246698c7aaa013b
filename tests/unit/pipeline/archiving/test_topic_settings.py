"""What a run asks about topics, how often, and what it says where nobody answers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_configs import Resource, Setting
from kbroker.client.cluster_links import TopicView
from kbroker.errors import ErrorCode, KafkaError
from kbroker.pipeline.archiving import topic_settings as module
from kbroker.pipeline.archiving.topic_settings import ToldTopics, TopicSettings, ask_cluster


class Cluster:
    """Answers what the test says, and remembers what it was asked."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.asked: list[list[str]] = []
        self.refusals: dict[str, str] = {}
        self.error: Exception | None = None
        self.settings = TopicSettings(self.ask, lambda: self.now_s)

    def ask(self, topics: Collection[str]) -> ToldTopics:
        self.asked.append(list(topics))
        if self.error is not None:
            raise self.error
        return ToldTopics(
            settings={topic: {} for topic in topics if topic not in self.refusals},
            refusals={topic: self.refusals[topic] for topic in topics if topic in self.refusals},
        )


def test_a_topic_is_asked_about_when_it_appears_and_a_minute_later() -> None:
    cluster = Cluster()
    for now_s, topics in ((0, "ba"), (30, "ab"), (40, "abc"), (59, "c"), (60, "abc"), (100, "c")):
        cluster.now_s = now_s
        cluster.settings.told(topics)

    assert cluster.asked == [["a", "b"], ["c"], ["a", "b"], ["c"]]


def test_what_was_asked_just_before_is_not_told_again() -> None:
    cluster = Cluster()

    assert cluster.settings.told("ab").settings == {"a": {}, "b": {}}
    assert cluster.settings.told("ab") == ToldTopics()


@pytest.mark.parametrize(
    "error", [ClientError("away"), ConnectionRefusedError("away"), KafkaError(ErrorCode.NONE, "x")]
)
def test_a_cluster_that_is_away_is_asked_with_the_next_batch(error: Exception) -> None:
    cluster = Cluster()
    cluster.error = error
    away = cluster.settings.told("a")
    cluster.error = None

    assert away == ToldTopics(refusals={"a": str(error)})
    assert cluster.settings.told("a").settings == {"a": {}}


def test_a_person_is_told_once_for_each_topic_and_why() -> None:
    cluster = Cluster()
    cluster.refusals = {"a": "NO", "c": "NO", "b": "NEVER"}
    noted = []
    for topics in ("ac", "abc", "abc"):
        cluster.now_s += 60
        noted.append(cluster.settings.notes(cluster.settings.told(topics).refusals))

    assert noted == [
        ["the archive goes on without the settings of a, c: NO"],
        ["the archive goes on without the settings of b: NEVER"],
        [],
    ]


class Links:
    """Two topics that tell their settings, one that is refused."""

    is_closed = False

    def __init__(self, _bootstrap: str) -> None:
        self.described = {"t": 3, "u": 1, "secret": 0}

    def topics(self, names: Collection[str]) -> list[TopicView]:
        counts = {name: self.described[name] for name in names}
        return [
            TopicView(name=name, code=ErrorCode.NONE, leaders=dict.fromkeys(range(count), 1))
            for name, count in counts.items()
        ]

    def close(self) -> None:
        Links.is_closed = True


def described(_links: Links, resources: Collection[Resource]) -> dict[Resource, Any]:
    setting = Setting(name="retention.ms", value="5", origin="topic", is_secret=False)
    default = Setting(name="segment.ms", value="5", origin="default", is_secret=False)
    refusal = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "secret: no")
    answers: dict[str, Any] = {"t": [setting, default], "u": [default], "secret": refusal}
    return {resource: answers[resource.name] for resource in resources}


def test_a_cluster_tells_own_settings_and_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ClusterLinks", Links)
    monkeypatch.setattr(module, "describe_each", described)

    told = ask_cluster("127.0.0.1:1", ["secret", "t", "u"])

    assert told.settings == {"t": {"retention.ms": "5"}, "u": {}}
    assert told.partition_counts == {"t": 3, "u": 1}
    assert told.refusals == {"secret": "TOPIC_AUTHORIZATION_FAILED"}
    assert Links.is_closed


def test_a_broker_that_cannot_describe_settings_still_tells_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def too_old(_links: Links, _resources: Collection[Resource]) -> dict[Resource, Any]:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "it serves no DescribeConfigs")

    monkeypatch.setattr(module, "ClusterLinks", Links)
    monkeypatch.setattr(module, "describe_each", too_old)

    told = ask_cluster("127.0.0.1:1", ["t"])

    assert told.partition_counts == {"t": 3}
    assert (told.settings, told.refusals) == ({}, {"t": "UNSUPPORTED_VERSION"})
