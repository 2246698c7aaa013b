"""The nodes of Kafka's ZooKeeper mode, and their bytes: paths and znode JSON of Kafka 3.9.

Pure. Encoders give Kafka's bytes (field order included, no spaces); decoders take any older version
of a node that Kafka 3.9 takes, and raise ZnodeFormatError for anything else. Topic ids are URL-safe
base64 without padding.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kbroker.java_hash import hash_table_order
from kbroker.model import (
    RECOVERED,
    SECURITY_PROTOCOLS,
    ZERO_UUID,
    Broker,
    EndPoint,
    LeaderAndIsr,
    ReplicaAssignment,
    SupportedFeature,
    TopicPartition,
)
from kbroker.wording import uuid_text
from kbroker.zk.znode_json import (
    ZnodeFormatError as ZnodeFormatError,  # noqa: PLC0414 - what decoders here raise
)
from kbroker.zk.znode_json import decode_json, encode_json, int32, int32s
from kbroker.zk.znode_json import text as text_of

CLUSTER_ID = "/cluster/id"
BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE_ID = "/brokers/seqid"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CONFIG = "/config"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "config_change_"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
ISR_CHANGE_NOTIFICATION = "/isr_change_notification"
LOG_DIR_EVENT_NOTIFICATION = "/log_dir_event_notification"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
FEATURE = "/feature"
CONSUMERS = "/consumers"
LOGIN_SECRET = "/kbroker/login_secret"  # noqa: S105  where it is; no node of Kafka's
FIRST_USER = "/kbroker/first_user"  # the same; without data
ACL = "/kafka-acl"
ACL_CHANGES = "/kafka-acl-changes"
EXTENDED_ACL = "/kafka-acl-extended"
EXTENDED_ACL_CHANGES = "/kafka-acl-extended-changes"
DELEGATION_TOKENS = "/delegation_token/tokens"
DELEGATION_TOKEN_CHANGES = "/delegation_token/token_changes"  # noqa: S105  where they are

DEFAULT_ENTITY = "<default>"
# Fields that Kafka does not have, and ignores: of a registration, and of a partition's state.
LOST_MEMORY = "kbroker_lost_memory"
CAUGHT_UP_ZXID = "kbroker_caught_up_zxid"
TOPIC_CONFIGS, BROKER_CONFIGS, CLIENT_CONFIGS, USER_CONFIGS, IP_CONFIGS = (
    "topics",
    "brokers",
    "clients",
    "users",
    "ips",
)
GROUP_CONFIGS = "groups"  # ours: Apache Kafka keeps settings of groups in KRaft alone

# Created by every broker at start, in this order.
PERSISTENT_PATHS = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE_ID,
    ISR_CHANGE_NOTIFICATION,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENT_NOTIFICATION,
    *(
        f"{CONFIG}/{kind}"
        for kind in (TOPIC_CONFIGS, CLIENT_CONFIGS, USER_CONFIGS, BROKER_CONFIGS, IP_CONFIGS)
    ),
)
PRODUCER_ID_BLOCK_SIZE = 1000
MAX_PRODUCER_ID = 2**63 - 1
_NO_NODES = (".", "..")  # a path may not have them: Kafka fails with an error of its ZooKeeper
_NOT_IN_PATHS = re.compile(rb"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAssignment:
    """The content of /brokers/topics/<topic>: the topic's id and the replicas of each partition."""

    topic_id: UUID
    partitions: dict[int, ReplicaAssignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStateZnode:
    """The content of a partition's state node.

    `leader_and_isr.partition_epoch` is the node's version.
    """

    leader_and_isr: LeaderAndIsr
    controller_epoch: int
    # The transaction at which the replicas in its ISR had caught up: the one that wrote it, once it
    # has been read, unless it names another; 0 is none.
    zxid: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStateWrite:
    """A partition state to write. `expected_version` None means the node must not exist yet;
    `caught_up_zxid` is given if the write vouches for nobody in the ISR.
    """

    topic_partition: TopicPartition
    leader_and_isr: LeaderAndIsr
    expected_version: int | None = None
    caught_up_zxid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdBlock:
    """A block of producer ids given to one broker; `last_id` is in it."""

    broker_id: int
    first_id: int
    last_id: int


def broker_path(broker_id: int) -> str:
    """Registration of a broker; ephemeral."""
    return f"{BROKER_IDS}/{broker_id}"


def is_broker_id(name: str) -> bool:
    """Whether a child of /brokers/ids can be a broker."""
    return name.isascii() and name.isdecimal() and len(name) <= 10 and str(int(name)) == name


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def partition_state_path(topic: str, partition: int) -> str:
    """Leader and ISR of a partition."""
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def config_root_path(entity_type: str) -> str:
    return f"{CONFIG}/{entity_type}"


def config_path(entity_type: str, name: str) -> str:
    """Overrides of one entity.

    `name` is already sanitized and may be a path (user and client together).
    """
    return f"{CONFIG}/{entity_type}/{name}"


def sanitized(name: str) -> str:
    """The name of a user, client, address or group as it stands in a path: as in a URL.

    >>> sanitized("ann @ home")
    'ann%20%40%20home'
    """
    octets = name.encode(errors="replace")
    return _NOT_IN_PATHS.sub(lambda found: b"%%%02X" % found[0][0], octets).decode()


def has_node(name: str) -> bool:
    """Whether a user, client, address or group of this name can have a node."""
    return bool(name) and name not in _NO_NODES


def config_change_prefix() -> str:
    """Path of a change notification without its sequence number."""
    return f"{CONFIG_CHANGES}/{CONFIG_CHANGE_PREFIX}"


def decode_uuid(text: str) -> UUID:
    """An id from Kafka's text; raises ValueError."""
    return UUID(bytes=urlsafe_b64decode(text + "=="))


def encode_cluster_id(cluster_id: str) -> bytes:
    return encode_json({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes | None) -> str:
    """The cluster id. Raises ZnodeFormatError."""
    cluster_id = decode_json(CLUSTER_ID, data).get("id")
    if not isinstance(cluster_id, str):
        raise ZnodeFormatError(f"{CLUSTER_ID}: no id")
    return cluster_id


def encode_broker(broker: Broker, now_ms: int, jmx_port: int = -1) -> bytes:
    """Data of /brokers/ids/<id>, version 5.

    Host and port are those of the first PLAINTEXT listener, as in Kafka.
    """
    plaintext = next((e for e in broker.end_points if e.security_protocol == "PLAINTEXT"), None)
    document: dict[str, Any] = {
        "features": {
            feature.name: {"min_version": feature.lowest, "max_version": feature.highest}
            for feature in broker.features
        },
        "listener_security_protocol_map": {
            e.listener_name: e.security_protocol for e in broker.end_points
        },
        "endpoints": [str(e) for e in broker.end_points],
    }
    if broker.rack is not None:
        document["rack"] = broker.rack
    if broker.has_lost_memory:
        document[LOST_MEMORY] = True  # Kafka's brokers ignore it
    document |= {
        "jmx_port": jmx_port,
        "port": plaintext.port if plaintext else -1,
        "host": plaintext.host if plaintext else None,
        "version": 5,
        "timestamp": str(now_ms),
    }
    return encode_json(document)


def decode_broker(broker_id: int, data: bytes | None, epoch: int) -> Broker:
    """A registration, versions 1 to 5; `epoch` is the czxid of the node.

    Raises ZnodeFormatError.
    """
    path = broker_path(broker_id)
    document = decode_json(path, data)
    end_points: tuple[EndPoint, ...]
    try:
        version = int32(document["version"])
        if version < 1:
            raise ZnodeFormatError(f"{path}: version {version}")
        if version == 1:
            host, port = text_of(document["host"]), _port(document["port"])
            end_points = (EndPoint(listener_name="PLAINTEXT", host=host, port=port),)
        else:
            protocols = document.get("listener_security_protocol_map", {})
            end_points = tuple(_end_point(text, protocols) for text in document["endpoints"])
        if not end_points:
            raise ZnodeFormatError(f"{path}: no end points")
        rack = document.get("rack")
        return Broker(
            broker_id=broker_id,
            end_points=end_points,
            rack=None if rack is None else text_of(rack),
            epoch=epoch,
            features=tuple(
                SupportedFeature(name, int32(levels["min_version"]), int32(levels["max_version"]))
                for name, levels in document.get("features", {}).items()
            ),
            has_lost_memory=document.get(LOST_MEMORY) is True,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ZnodeFormatError(f"{path}: {error!r}") from error


def encode_topic(assignment: TopicAssignment) -> bytes:
    """Data of /brokers/topics/<topic>, version 3; the zero id is left out, as in Kafka."""
    partitions = assignment.partitions
    topic_id = assignment.topic_id
    return encode_json(
        {
            "partitions": {str(p): list(a.replicas) for p, a in partitions.items()},
            **({} if topic_id == ZERO_UUID else {"topic_id": uuid_text(topic_id)}),
            "adding_replicas": {
                str(p): list(a.adding_replicas) for p, a in partitions.items() if a.adding_replicas
            },
            "removing_replicas": {
                str(p): list(a.removing_replicas)
                for p, a in partitions.items()
                if a.removing_replicas
            },
            "version": 3,
        }
    )


def decode_topic(topic: str, data: bytes | None) -> TopicAssignment:
    """An assignment, versions 1 to 3; a topic older than version 3 has the zero id.

    Raises ZnodeFormatError.
    """
    path = topic_path(topic)
    document = decode_json(path, data)
    try:
        adding = document.get("adding_replicas") or {}
        removing = document.get("removing_replicas") or {}
        text = document.get("topic_id")
        return TopicAssignment(
            topic_id=decode_uuid(text) if text else ZERO_UUID,
            partitions={
                _partition_number(partition): ReplicaAssignment(
                    replicas=int32s(replicas),
                    adding_replicas=int32s(adding.get(partition, ())),
                    removing_replicas=int32s(removing.get(partition, ())),
                )
                for partition, replicas in document["partitions"].items()
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ZnodeFormatError(f"{path}: {error!r}") from error


def encode_partition_state(
    state: LeaderAndIsr, controller_epoch: int, caught_up_zxid: int | None = None
) -> bytes:
    """Data of a partition's state node, version 1."""
    isr = ",".join(map(str, state.isr))
    noted = "" if caught_up_zxid is None else f',"{CAUGHT_UP_ZXID}":{caught_up_zxid}'
    recovery = (
        f'"leader_recovery_state":{state.leader_recovery_state},'
        if state.leader_recovery_state != RECOVERED
        else ""
    )
    # Written by hand: it is the node written most, and the format is fixed.
    return (
        f'{{"controller_epoch":{controller_epoch},"leader":{state.leader},"version":1,'
        f'{recovery}"leader_epoch":{state.leader_epoch},"isr":[{isr}]{noted}}}'
    ).encode()


def decode_partition_state(path: str, data: bytes | None, version: int) -> PartitionStateZnode:
    """A partition's state; `version` is that of the node. Raises ZnodeFormatError."""
    document = decode_json(path, data)
    try:
        return PartitionStateZnode(
            leader_and_isr=LeaderAndIsr(
                leader=int32(document["leader"]),
                leader_epoch=int32(document["leader_epoch"]),
                isr=int32s(document["isr"]),
                partition_epoch=version,
                leader_recovery_state=int32(document.get("leader_recovery_state", RECOVERED)),
            ),
            controller_epoch=int32(document["controller_epoch"]),
            zxid=int(document.get(CAUGHT_UP_ZXID, 0)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ZnodeFormatError(f"{path}: {error!r}") from error


def encode_controller(broker_id: int, now_ms: int) -> bytes:
    """Data of /controller, version 2."""
    return encode_json(
        {"version": 2, "brokerid": broker_id, "timestamp": str(now_ms), "kraftControllerEpoch": -1}
    )


def decode_controller(data: bytes | None) -> int:
    """Id of the controller. Raises ZnodeFormatError."""
    try:
        return int32(decode_json(CONTROLLER, data).get("brokerid"))
    except ValueError as error:
        raise ZnodeFormatError(f"{CONTROLLER}: {error!r}") from error


def encode_controller_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


def decode_controller_epoch(data: bytes | None) -> int:
    """The controller epoch. Raises ZnodeFormatError."""
    try:
        return int32(int(data or b""))
    except ValueError as error:
        raise ZnodeFormatError(f"{CONTROLLER_EPOCH}: {data!r}") from error


def encode_config(overrides: Mapping[str, str]) -> bytes:
    """Data of an entity's overrides, version 1, in the order of the hash table that Kafka has."""
    ordered = {name: overrides[name] for name in hash_table_order(overrides)}
    return encode_json({"version": 1, "config": ordered})


def decode_config(path: str, data: bytes | None) -> dict[str, str]:
    """An entity's overrides; a node without data (a parent of a longer path) has none.

    Raises ZnodeFormatError.
    """
    if not data:
        return {}
    config = decode_json(path, data).get("config", {})
    if not isinstance(config, dict) or not all(isinstance(v, str) for v in config.values()):
        raise ZnodeFormatError(f"{path}: config is not a map of strings")
    return config


def encode_config_change(entity_path: str) -> bytes:
    """Data of a change notification, version 2; `entity_path` is as in `topics/orders`."""
    return encode_json({"version": 2, "entity_path": entity_path})


def decode_config_change(data: bytes | None) -> str:
    """The entity path of a notification, versions 1 and 2. Raises ZnodeFormatError."""
    document = decode_json(CONFIG_CHANGES, data)
    try:
        version = int32(document["version"])
        if version == 1:
            entity_path = f"{text_of(document['entity_type'])}/{text_of(document['entity_name'])}"
        elif version == 2:
            entity_path = text_of(document["entity_path"])
        else:
            raise ValueError(f"version {version}")
        if not all(entity_path.partition("/")):
            raise ValueError(f"{entity_path!r} is not the path of an entity")
    except (KeyError, ValueError) as error:
        raise ZnodeFormatError(f"{CONFIG_CHANGES}: {error!r}") from error
    return entity_path


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    return encode_json(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.first_id),
            "block_end": str(block.last_id),
        }
    )


def decode_producer_id_block(data: bytes | None) -> ProducerIdBlock:
    """The latest block. Raises ZnodeFormatError."""
    document = decode_json(PRODUCER_ID_BLOCK, data)
    try:
        first_id, last_id = int(document["block_start"]), int(document["block_end"])
        if not 0 <= first_id <= last_id < MAX_PRODUCER_ID - PRODUCER_ID_BLOCK_SIZE:
            raise ValueError(f"no block is {first_id} to {last_id}, or none is left behind it")
        broker_id = int32(document["broker"])
        return ProducerIdBlock(broker_id=broker_id, first_id=first_id, last_id=last_id)
    except (KeyError, TypeError, ValueError) as error:
        raise ZnodeFormatError(f"{PRODUCER_ID_BLOCK}: {error!r}") from error


def sequence_number(node_name: str) -> int:
    """The number at the end of a sequential node's name. Raises ZnodeFormatError."""
    digits = node_name[-10:]
    if len(digits) != 10 or not digits.isdecimal():
        raise ZnodeFormatError(f"{node_name}: no sequence number")
    return int(digits)


def _port(value: object) -> int:
    number = int32(value)
    if not 0 <= number <= 0xFFFF:
        raise ValueError(f"port {number}")
    return number


def _partition_number(text: str) -> int:
    number = int32(int(text))
    if number < 0:
        raise ValueError(f"partition {text}")
    return number


def _end_point(text: str, protocols: Mapping[str, str]) -> EndPoint:
    listener_name, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    security_protocol = protocols.get(listener_name, listener_name)
    if security_protocol not in SECURITY_PROTOCOLS:
        raise ValueError(f"security protocol {security_protocol!r}")
    return EndPoint(
        listener_name=listener_name,
        host=host.removeprefix("[").removesuffix("]"),
        port=_port(int(port)),
        security_protocol=security_protocol,
    )
