"""Environments that public compose files and guides give to images of Kafka, by what they are written
for. Names, ports and ids are those of this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_INTERNAL_TOPICS = {
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
_THREE_VOTERS = "1@node-1:9093,2@node-2:9093,3@node-3:9093"
_CLUSTER = "The7ClusterOfThisFile0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """An environment and the broker that comes of it: where it listens, what clients are given, and
    whom it names its cluster after.
    """

    variables: Mapping[str, str]
    listeners: str
    advertised: str
    cluster_id: str | None = None
    notes: tuple[str, ...] = ()


SINGLE_NODES = {
    # ---- apache/kafka
    "two listeners for clients": Form(
        variables={
            **_INTERNAL_TOPICS,
            "CLUSTER_ID": _CLUSTER,
            "KAFKA_NODE_ID": "1",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_LISTENERS": "CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
            "KAFKA_LOG_DIRS": "/tmp/kraft-combined-logs",
        },
        listeners="PLAINTEXT_HOST://:9092,PLAINTEXT://:19092",
        advertised="PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092",
        cluster_id=_CLUSTER,
    ),
    "no map of protocols": Form(
        variables={
            "KAFKA_NODE_ID": "1",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
        },
        listeners="PLAINTEXT://:9092",
        advertised="PLAINTEXT://localhost:9092",
    ),
    "the controller by its newer setting, and advertised": Form(
        variables={
            "KAFKA_NODE_ID": "1",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": "kafka:9093",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://0.0.0.0:9093",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092,CONTROLLER://kafka:9093",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        },
        listeners="PLAINTEXT://0.0.0.0:9092",
        advertised="PLAINTEXT://kafka:9092",
    ),
    # ---- confluentinc/cp-kafka
    "KRaft with a broker id and a port of JMX": Form(
        variables={
            **_INTERNAL_TOPICS,
            "CLUSTER_ID": _CLUSTER,
            "KAFKA_BROKER_ID": "1",
            "KAFKA_NODE_ID": "1",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_LISTENERS": "PLAINTEXT://broker:29092,CONTROLLER://broker:29093,PLAINTEXT_HOST://0.0.0.0:9092",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
            "KAFKA_JMX_PORT": "9101",
            "KAFKA_JMX_HOSTNAME": "localhost",
        },
        listeners="PLAINTEXT://broker:29092,PLAINTEXT_HOST://0.0.0.0:9092",
        advertised="PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
        cluster_id=_CLUSTER,
        notes=(
            "KAFKA_JMX_HOSTNAME is set but has no effect: it is meant for Java",
            "KAFKA_JMX_PORT is set but has no effect: it is meant for Java",
        ),
    ),
    "ZooKeeper, and listeners by what is advertised": Form(
        variables={
            **_INTERNAL_TOPICS,
            "KAFKA_BROKER_ID": "1",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
        },
        listeners="PLAINTEXT://:29092,PLAINTEXT_HOST://:9092",
        advertised="PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
    ),
    # ---- bitnami/kafka
    "Bitnami's names, and no host": Form(
        variables={
            "KAFKA_CFG_NODE_ID": "0",
            "KAFKA_CFG_PROCESS_ROLES": "controller,broker",
            "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "0@kafka:9093",
            "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://:9092",
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_CFG_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "ALLOW_PLAINTEXT_LISTENER": "yes",
        },
        listeners="PLAINTEXT://:9092",
        advertised="PLAINTEXT://:9092",
    ),
    "Bitnami's names, two listeners and a cluster id": Form(
        variables={
            "KAFKA_CFG_NODE_ID": "0",
            "KAFKA_CFG_PROCESS_ROLES": "controller,broker",
            "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "0@kafka:9093",
            "KAFKA_CFG_LISTENERS": "INTERNAL://:9092,CONTROLLER://:9093,EXTERNAL://:9094",
            "KAFKA_CFG_ADVERTISED_LISTENERS": "INTERNAL://kafka:9092,EXTERNAL://localhost:9094",
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT,INTERNAL:PLAINTEXT",
            "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_CFG_INTER_BROKER_LISTENER_NAME": "INTERNAL",
            "KAFKA_CFG_MESSAGE_MAX_BYTES": "52428800",
            "KAFKA_KRAFT_CLUSTER_ID": _CLUSTER,
            "KAFKA_HEAP_OPTS": "-Xmx1g",
        },
        listeners="INTERNAL://:9092,EXTERNAL://:9094",
        advertised="INTERNAL://kafka:9092,EXTERNAL://localhost:9094",
        cluster_id=_CLUSTER,
        notes=("KAFKA_HEAP_OPTS is set but has no effect: it is meant for Java",),
    ),
    "Bitnami's names, the controller advertised": Form(
        variables={
            "KAFKA_CFG_NODE_ID": "0",
            "KAFKA_CFG_PROCESS_ROLES": "controller,broker",
            "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "0@localhost:9093",
            "KAFKA_CFG_LISTENERS": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://0.0.0.0:9093",
            "KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        },
        listeners="PLAINTEXT://0.0.0.0:9092",
        advertised="PLAINTEXT://localhost:9092",
    ),
}

SEVERAL_NODES = {
    "a node of three that do both": (
        {
            "CLUSTER_ID": _CLUSTER,
            "KAFKA_NODE_ID": "2",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": _THREE_VOTERS,
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_LISTENERS": "PLAINTEXT://:19092,CONTROLLER://:9093,PLAINTEXT_HOST://:9092",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://node-2:19092,PLAINTEXT_HOST://localhost:39092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
        },
        "controller.quorum.voters names 3 nodes",
    ),
    "a broker beside controllers": (
        {
            "KAFKA_NODE_ID": "4",
            "KAFKA_PROCESS_ROLES": "broker",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": _THREE_VOTERS,
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_LISTENERS": "PLAINTEXT://:19092,PLAINTEXT_HOST://:9092",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://node-4:19092,PLAINTEXT_HOST://localhost:29092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
        },
        "controller.quorum.voters names 3 nodes",
    ),
    "a second broker of Bitnami's, whose controller is the first": (
        {
            "KAFKA_CFG_NODE_ID": "1",
            "KAFKA_CFG_PROCESS_ROLES": "broker",
            "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "0@controller:9093",
            "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://node-1:9092",
        },
        "process.roles=broker leaves the controller to another node",
    ),
    "a controller": (
        {
            "KAFKA_NODE_ID": "1",
            "KAFKA_PROCESS_ROLES": "controller",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": _THREE_VOTERS,
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_LISTENERS": "CONTROLLER://:9093",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
        },
        "process.roles=controller makes a node without clients",
    ),
}
