"""Dynamic settings: Kafka 3.9's refusals, list operations,
and changes that reach their handlers.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kbroker.admin.config_changes import apply_operations
from kbroker.admin.dynamic_config_manager import DynamicConfigManager
from kbroker.errors import ConfigError, ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kbroker.zk.nodes.entity_configs import ZkEntityConfigs
from tests.fakes.clusters.controller_cluster import ControllerCluster, FakeBroker

Resource = IncrementalAlterConfigsRequest.AlterConfigsResource
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
TOPIC, BROKER, LOGGER = 2, 4, 8


@pytest.fixture
async def broker(cluster: ControllerCluster) -> FakeBroker:
    """Broker 0, in a cluster with topic T."""
    wanted = CreateTopicsRequest.CreatableTopic(name="T", num_partitions=1, replication_factor=1)
    broker = cluster.brokers[0]
    await broker.topics.create_topics([wanted], 1000, False)
    return broker


def change(kind: int, name: str, *changes: tuple[str, int, str | None]) -> Resource:
    return Resource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(
                name=key, config_operation=operation, value=value
            )
            for key, operation, value in changes
        ],
    )


async def alter(broker: FakeBroker, resource: Resource) -> KafkaError | None:
    return (await broker.configs.incremental_alter([resource], False))[0]


# Whoever may alter settings is not by that allowed to have code of Python run.
NAMES_OF_CODE = (
    "principal.builder.class",
    "listener.name.any.principal.builder.class",
    "listener.name.any.plain.sasl.server.callback.handler.class",
)
REFUSALS = [
    (
        change(TOPIC, "no-such", ("retention.ms", SET, "1")),
        3,
        "The topic 'no-such' does not exist.",
    ),
    (change(TOPIC, "T", ("no.such", SET, "1")), 40, "Unknown topic config name: no.such"),
    (
        change(TOPIC, "T", ("retention.ms", SET, "abc")),
        40,
        "Invalid config value for resource ConfigResource(type=TOPIC, name='T'): "
        "Invalid value abc for configuration retention.ms: Not a number of type LONG",
    ),
    (
        change(TOPIC, "T", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
        42,
        "Error due to duplicate config keys",
    ),
    (
        change(TOPIC, "T", ("retention.ms", SET, None)),
        42,
        "Null value not supported for : retention.ms",
    ),
    (change(TOPIC, "T", ("retention.ms", 9, "1")), -1, None),
    (
        change(TOPIC, "T", ("retention.ms", APPEND, "1")),
        40,
        "Config value append is not allowed for config key: retention.ms",
    ),
    (
        change(BROKER, "0", ("log.dirs", SET, "/x")),
        42,
        "Cannot update these configs dynamically: Set(log.dirs)",
    ),
    (
        change(BROKER, "", ("listeners", SET, "PLAINTEXT://:1")),
        42,
        "Cannot update these configs at default cluster level, broker id must be specified: "
        "Set(listeners)",
    ),
    (
        change(BROKER, "", ("listener.name.plaintext.plain.sasl.jaas.config", SET, "secret")),
        42,
        "Cannot update these configs at default cluster level, broker id must be specified: "
        "Set(listener.name.plaintext.plain.sasl.jaas.config)",
    ),
    (
        change(BROKER, "", ("sasl.jaas.config", SET, "secret")),
        42,
        "Cannot update these configs at default cluster level, broker id must be specified: "
        "Set(sasl.jaas.config)",
    ),
    *(
        (
            change(BROKER, "0", (name, SET, "os:system")),
            42,
            f"Cannot update these configs dynamically: Set({name})",
        )
        for name in NAMES_OF_CODE
    ),
    (
        change(BROKER, "99", ("log.cleaner.threads", SET, "2")),
        42,
        "Unexpected broker id, expected 0, but received 99",
    ),
    (change(3, "x", ("a", SET, "b")), 42, "Unknown resource type 3"),
    (change(BROKER, "0", ("log.retention.ms", 9, "1")), 42, "Unknown operations type 9"),
    (
        change(BROKER, "0", ("log.cleaner.threads", SET, "3")),
        42,
        "Dynamic thread count update validation failed for log.cleaner.threads=3, "
        "value should not be greater than double the current value 1",
    ),
    (
        change(TOPIC, "T", ("retention.ms", SET, None), ("segment.ms", SET, None)),
        42,
        "Null value not supported for : retention.ms, segment.ms",
    ),
    (
        change(LOGGER, "7", ("root", SET, "INFO")),
        42,
        "Unexpected node id. Expected 0, but received 7",
    ),
    (
        change(LOGGER, "", ("root", SET, "INFO")),
        42,
        "Node id must be an integer, but it is: ",
    ),
    (change(LOGGER, "0", ("no.such", SET, "INFO")), 40, "Logger no.such does not exist!"),
    (
        change(TOPIC, "T", ("remote.storage.enable", SET, "true")),
        40,
        "Tiered Storage functionality is disabled in the broker. "
        "Topic cannot be configured with remote log storage.",
    ),
    (
        change(TOPIC, "T", ("cleanup.policy", APPEND, "")),
        40,
        "Invalid config value for resource ConfigResource(type=TOPIC, name='T'): "
        "Invalid value  for configuration cleanup.policy: String must be one of: compact, delete",
    ),
    (
        change(BROKER, "--5", ("log.cleaner.threads", SET, "2")),
        42,
        "Node id must be an integer, but it is: --5",
    ),
]


@pytest.mark.parametrize(("resource", "code", "message"), REFUSALS)
async def test_a_change_that_cannot_be_is_refused_as_kafka_does(
    resource: Resource, code: int, message: str | None, broker: FakeBroker
) -> None:
    before = broker.cluster.tree.zxid
    refusal = await alter(broker, resource)
    assert refusal is not None
    assert (refusal.code, refusal.message) == (code, message)
    assert broker.cluster.tree.zxid == before


MANY = [(f"no.such{number}", SET, "1") for number in range(1_000)]
TOO_MANY = KafkaError(ErrorCode.POLICY_VIOLATION, "One resource has 1,000 settings at most.")


def told(refusal: KafkaError | None) -> tuple[int, str | None] | None:
    return refusal and (refusal.code, refusal.message)


@pytest.mark.parametrize(
    ("kind", "name"), [(BROKER, "0"), (BROKER, ""), (TOPIC, "T"), (LOGGER, "0")]
)
async def test_a_resource_gets_1_000_settings_at_most(
    kind: int, name: str, broker: FakeBroker
) -> None:
    resource = change(kind, name, *MANY, ("one.more", SET, "1"))

    assert told(await alter(broker, resource)) == told(TOO_MANY)


async def test_settings_that_were_set_before_count_towards_those_of_a_resource(
    broker: FakeBroker,
) -> None:
    one_more = change(BROKER, "0", ("one.more", SET, "1"))

    assert await alter(broker, change(BROKER, "0", *MANY)) is None
    assert told(await alter(broker, one_more)) == told(TOO_MANY)
    assert await alter(broker, change(BROKER, "0", (MANY[0][0], DELETE, None))) is None
    assert await alter(broker, one_more) is None
    assert await broker.configs.replace([change(BROKER, "0", *MANY)], False) == [None]


def test_more_settings_than_that_which_were_stored_before_can_be_reduced() -> None:
    stored = {f"no.such{number}": "1" for number in range(1_500)}
    deleted = IncrementalAlterConfigsRequest.AlterableConfig(
        name="no.such0", config_operation=DELETE, value=None
    )

    assert len(apply_operations([deleted], stored, lambda name: None)) == 1_499


async def test_lists_are_appended_to_and_subtracted_from(broker: FakeBroker) -> None:
    await alter(broker, change(TOPIC, "T", ("cleanup.policy", APPEND, "compact")))
    appended = await broker.configs.topic_overrides("T")
    await alter(broker, change(TOPIC, "T", ("cleanup.policy", SUBTRACT, "delete")))
    subtracted = await broker.configs.topic_overrides("T")
    assert appended == {"cleanup.policy": "delete,compact"}
    assert subtracted == {"cleanup.policy": "compact"}


async def test_deleting_what_is_not_set_and_setting_what_is_unknown_on_a_broker_are_fine(
    broker: FakeBroker,
) -> None:
    assert await alter(broker, change(TOPIC, "T", ("retention.ms", DELETE, None))) is None
    assert await alter(broker, change(BROKER, "0", ("no.such", SET, "1"))) is None
    assert await broker.configs.broker_overrides(0) == {"no.such": "1"}


@pytest.mark.parametrize(
    "setting", ["sasl.jaas.config", "listener.name.plaintext.plain.sasl.jaas.config"]
)
async def test_no_password_is_stored(broker: FakeBroker, setting: str) -> None:
    resource = change(BROKER, "0", (setting, SET, "secret"))

    assert await broker.configs.incremental_alter([resource], True) == [None]
    refusals = [
        await alter(broker, resource),
        *await broker.configs.replace([resource], False),
    ]

    assert [(each.code, each.message) for each in refusals if each] == [
        (
            40,
            "Invalid config value for resource ConfigResource(type=BROKER, name='0'): "
            "Password encoder secret not configured",
        )
    ] * 2
    assert b"secret" not in b"".join(data or b"" for _, data, _ in broker.cluster.tree.dump())
    assert await alter(broker, change(BROKER, "0", (setting, DELETE, None))) is None


async def test_validate_only_and_a_resource_named_twice_change_nothing(broker: FakeBroker) -> None:
    resource = change(TOPIC, "T", ("retention.ms", SET, "1"))
    before = broker.cluster.tree.zxid
    assert await broker.configs.incremental_alter([resource], True) == [None]
    refusals = await broker.configs.incremental_alter([resource, resource], False)
    assert [refusal.code for refusal in refusals if refusal] == [42, 42]
    assert broker.cluster.tree.zxid == before


async def test_a_change_writes_the_entity_and_a_notification_as_kafka_does(
    broker: FakeBroker,
) -> None:
    await alter(broker, change(BROKER, "", ("message.max.bytes", SET, "2000000")))
    nodes = {path: data for path, data, _ in broker.cluster.tree.dump()}
    assert nodes["/config/brokers/<default>"] == (
        b'{"version":1,"config":{"message.max.bytes":"2000000"}}'
    )
    assert nodes["/config/changes/config_change_0000000000"] == (
        b'{"version":2,"entity_path":"brokers/<default>"}'
    )


async def test_handlers_hear_of_changes_with_all_overrides_and_of_brokers_at_start(
    broker: FakeBroker,
) -> None:
    await alter(broker, change(BROKER, "0", ("log.cleaner.threads", SET, "2")))
    heard: list[tuple[str, Mapping[str, str]]] = []
    manager = DynamicConfigManager(broker.zk, broker.cluster.clock)
    manager.add_handler("topics", lambda name, overrides: heard.append((name, overrides)))
    manager.add_handler("brokers", lambda name, overrides: heard.append((name, overrides)))
    await manager.start()
    await alter(broker, change(TOPIC, "T", ("retention.ms", SET, "1")))
    await alter(broker, change(TOPIC, "T", ("segment.ms", SET, "2")))
    await broker.cluster.settle()
    await manager.stop()
    assert heard[0] == ("0", {"log.cleaner.threads": "2"})
    assert heard[-1] == ("T", {"retention.ms": "1", "segment.ms": "2"})
    assert manager.topic_overrides("T") == {"retention.ms": "1", "segment.ms": "2"}


async def test_settings_that_cannot_be_taken_over_keep_no_broker_from_starting(
    caplog: pytest.LogCaptureFixture, broker: FakeBroker
) -> None:
    def refuse(_entity: str, _overrides: Mapping[str, str]) -> None:
        raise ConfigError("Invalid value x for configuration log.cleaner.threads")

    await ZkEntityConfigs(broker.zk).update("brokers", "0", lambda _: {"log.cleaner.threads": "x"})
    heard: list[str] = []
    manager = DynamicConfigManager(broker.zk, broker.cluster.clock)
    manager.add_handler("brokers", refuse)
    manager.add_handler("brokers", lambda name, _overrides: heard.append(name))
    await manager.start()
    await manager.stop()
    assert heard == ["0"]

    assert "log.cleaner.threads" in caplog.text


async def test_overrides_of_deleted_topics_are_forgotten(broker: FakeBroker) -> None:
    await alter(broker, change(TOPIC, "T", ("retention.ms", SET, "1")))
    manager = DynamicConfigManager(broker.zk, broker.cluster.clock)
    await manager.start()
    before = dict(manager.topic_overrides("T"))
    manager.forget_topics([TopicPartition("T", 0)])
    await manager.stop()
    assert before == {"retention.ms": "1"}
    assert manager.topic_overrides("T") == {}
