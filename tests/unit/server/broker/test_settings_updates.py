"""Who hears of dynamic settings when they change."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.model import TopicPartition
from kbroker.replication.replication_quota import (
    FOLLOWER_RATE,
    LEADER_RATE,
    MOVING_RATE,
    ReplicationQuotas,
)
from kbroker.server.broker.broker_settings import BrokerSettings, SettingsUpdates

UNCLEAN = "unclean.leader.election.enable"


class Changes:
    """Fulfils what is asked of the manager of dynamic settings, and says what changed."""

    def __init__(self) -> None:
        self._handlers: dict[str, object] = {}

    def add_handler(self, entity_type: str, handler: object) -> None:
        self._handlers[entity_type] = handler

    def tell(self, entity_type: str, entity: str, overrides: Mapping[str, str]) -> None:
        self._handlers[entity_type](entity, overrides)  # type: ignore[operator]


def told_of(*changes: tuple[str, str, Mapping[str, str]]) -> list[str | None]:
    """For what unclean elections are held after these changes."""
    told: list[str | None] = []
    manager = Changes()
    logs = SimpleNamespace(all_logs=list, all_futures=list, update_topic_config=lambda *_: None)
    settings = BrokerSettings(KafkaConfig.for_profile("dev"), lambda _: {})
    updates = SettingsUpdates(manager, settings, logs, ReplicationQuotas(0))  # type: ignore[arg-type]
    updates.on_unclean_elections(told.append)
    for change in changes:
        manager.tell(*change)
    return told


def test_a_topic_that_allows_unclean_elections_gets_them() -> None:
    assert told_of(("topics", "t", {UNCLEAN: " TRUE "})) == ["t"]


@pytest.mark.parametrize("overrides", [{}, {UNCLEAN: "false"}, {"retention.ms": "1"}])
def test_a_topic_that_does_not_allow_them_gets_none(overrides: dict[str, str]) -> None:
    assert told_of(("topics", "t", overrides)) == []


def test_a_default_that_allows_them_is_told_of_once() -> None:
    allowed, forbidden = {UNCLEAN: "true"}, {UNCLEAN: "false"}
    changes = [("brokers", "<default>", overrides) for overrides in (allowed, allowed, forbidden)]
    assert told_of(*changes) == [None]
    assert told_of(*changes, changes[0]) == [None, None]


class CountingLog:
    """Notes the settings it is given, and how often anybody looked what it is a log of."""

    def __init__(self, topic: str, partition: int) -> None:
        self._topic_partition = TopicPartition(topic, partition)
        self.looks = 0
        self.configs: list[TopicConfig] = []

    @property
    def topic_partition(self) -> TopicPartition:
        self.looks += 1
        return self._topic_partition

    def update_config(self, config: TopicConfig) -> None:
        self.configs.append(config)


def test_a_default_changes_every_log_and_those_that_will_take_their_place_in_one_pass() -> None:
    manager = Changes()
    logs = [CountingLog(f"t{n % 50}", n) for n in range(100)]
    settings = BrokerSettings(KafkaConfig.for_profile("dev"), lambda _: {})
    held = SimpleNamespace(all_logs=lambda: logs[:90], all_futures=lambda: logs[90:])
    SettingsUpdates(manager, settings, held, ReplicationQuotas(0))  # type: ignore[arg-type]

    manager.tell("brokers", "<default>", {"log.retention.ms": "7"})

    assert [[c.retention_ms for c in log.configs] for log in logs] == [[7]] * 100
    assert {log.looks for log in logs} == {1}


def test_replication_rates_are_those_of_this_broker_and_end_with_their_settings() -> None:
    manager, quotas = Changes(), ReplicationQuotas(0)
    settings = BrokerSettings(KafkaConfig.for_profile("dev", {"broker.id": "0"}), lambda _: {})
    held = SimpleNamespace(all_logs=list, all_futures=list)
    SettingsUpdates(manager, settings, held, quotas)  # type: ignore[arg-type]

    manager.tell("brokers", "<default>", {FOLLOWER_RATE: "20"})
    manager.tell("brokers", "0", {LEADER_RATE: "10", MOVING_RATE: "5"})
    manager.tell("brokers", "1", {LEADER_RATE: "30", FOLLOWER_RATE: "30"})
    limits = [quota.limit for quota in (quotas.leader, quotas.follower, quotas.moving)]
    assert limits == [10, 20, 5]

    manager.tell("brokers", "0", {})
    manager.tell("brokers", "<default>", {})
    assert (quotas.leader.limit, quotas.follower.limit) == (None, None)
