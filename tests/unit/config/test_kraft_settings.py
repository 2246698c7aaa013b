"""What KRaft's settings say to a broker that has no quorum."""

from __future__ import annotations

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError, Trouble
from kbroker.server.start.start_refusals import refusals_of

# What the server.properties of Kafka 4 sets of nodes and addresses.
SHIPPED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
}
ROLE = "process.roles=broker leaves the controller to another node"
VOTERS = "controller.quorum.voters names 2 nodes"
OTHERS = [
    ({"process.roles": "broker,controller", "controller.quorum.voters": "1@a:9,2@b:9"}, VOTERS),
    ({"process.roles": "broker", "controller.quorum.voters": "1@a:9,2@b:9"}, VOTERS),
    ({"controller.quorum.voters": "1@a:9,2@b:9"}, VOTERS),
    (
        {"process.roles": "broker,controller", "controller.quorum.bootstrap.servers": "a:9,b:9"},
        "controller.quorum.bootstrap.servers names 2 nodes",
    ),
    ({"process.roles": "broker", "controller.quorum.voters": "1@a:9"}, ROLE),
    ({"process.roles": "broker"}, ROLE),
]


def configured(**changes: str) -> KafkaConfig:
    """The shipped settings with others on top; an empty text takes one away."""
    values = {**SHIPPED, **{name.replace("_", "."): text for name, text in changes.items()}}
    config = KafkaConfig({name: text for name, text in values.items() if text})
    config.validate()
    return config


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"advertised_listeners": "PLAINTEXT://localhost:9092"},
        {"listener_security_protocol_map": ""},
        {"listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL"},
        {"controller_listener_names": "controller"},
        {"process_roles": "", "controller_quorum_bootstrap_servers": ""},
    ],
)
def test_listeners_of_a_controller_are_left_out(changes: dict[str, str]) -> None:
    config = configured(**changes)

    assert [str(each) for each in config.end_points()] == ["PLAINTEXT://:9092"]
    assert [str(each) for each in config.advertised_end_points()] == ["PLAINTEXT://localhost:9092"]
    assert config.left_out_listeners() == ["CONTROLLER"]
    assert config.warnings() == []
    assert list(refusals_of(config)) == []


def test_several_listeners_of_controllers_are_left_out_and_named() -> None:
    config = configured(
        controller_listener_names="CONTROLLER, NEW, ELSE",
        listeners="NEW://:9094,PLAINTEXT://:9092,CONTROLLER://:9093,SOMEONEELSE://:9095",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,SOMEONEELSE:PLAINTEXT",
    )

    assert [each.port for each in config.end_points()] == [9092, 9095]
    assert config.left_out_listeners() == ["CONTROLLER", "NEW"]


def test_a_listener_of_clients_needs_a_protocol_still() -> None:
    with pytest.raises(ConfigError, match="no security protocol for INSIDE"):
        configured(listeners="INSIDE://:9092,CONTROLLER://:9093")


@pytest.mark.parametrize(("values", "reason"), OTHERS)
def test_one_of_several_nodes_does_not_start_by_itself(values: dict[str, str], reason: str) -> None:
    (refusal,) = refusals_of(KafkaConfig(values))

    assert str(refusal) == (
        f"{reason}, and kbroker has no KRaft quorum: each node would be a cluster of its own. Run "
        "the brokers of one cluster in one process (`kbroker start --brokers 3`), or give each of "
        "them zookeeper.connect, or start this node by itself with kbroker.quorum=alone"
    )
    assert refusal.trouble is Trouble.KRAFT
    assert KafkaConfig(values).warnings() == []


@pytest.mark.parametrize(("values", "_reason"), OTHERS)
def test_one_of_several_nodes_starts_where_it_is_said_what_it_is(
    values: dict[str, str], _reason: str
) -> None:
    alone = KafkaConfig({**values, "kbroker.quorum": "alone"})
    member = KafkaConfig({**values, "zookeeper.connect": "a:2181"})
    said = "kbroker has no KRaft quorum: this broker"

    assert list(refusals_of(KafkaConfig(values), is_cluster=True)) == []
    assert list(refusals_of(alone)) == []
    assert alone.warnings() == [f"{said} starts as a cluster of its own"]
    assert list(refusals_of(member)) == []
    assert member.warnings() == [f"{said} is one of the cluster at zookeeper.connect"]


@pytest.mark.parametrize("more", [{}, {"kbroker.quorum": "alone"}, {"zookeeper.connect": "a:1"}])
def test_a_controller_alone_never_starts(more: dict[str, str]) -> None:
    values = {
        "process.roles": "controller",
        "listeners": "CONTROLLER://:9093",
        "controller.listener.names": "CONTROLLER",
        **more,
    }
    with pytest.raises(ConfigError, match=r"^process\.roles=controller .* leave this node out"):
        KafkaConfig(values).validate()
