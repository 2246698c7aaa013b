"""Requests and news for the controller in nodes of the tree: paths and JSON of Kafka 3.9.

Pure. Wishes of people (/admin): reassignments, preferred elections. News of brokers, numbered:
changed ISRs (brokers without AlterPartition, KIP-497), failed log directories (KIP-112). Encoders
give Kafka's bytes, decoders take what Kafka 3.9 takes (it looks at no version here) and raise
ZnodeFormatError for anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kbroker.model import TopicPartition
from kbroker.zk.zk_paths import (
    ISR_CHANGE_NOTIFICATION,
    LOG_DIR_EVENT_NOTIFICATION,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
)
from kbroker.zk.znode_json import ZnodeFormatError, decode_json, encode_json, int32, int32s, text

ISR_CHANGE_PREFIX = f"{ISR_CHANGE_NOTIFICATION}/isr_change_"
LOG_DIR_EVENT_PREFIX = f"{LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_"
LOG_DIR_FAILURE_EVENT = 1

_VERSION = 1
_REASSIGNMENT_KEYS = frozenset({"version", "partitions"})
_PARTITION_KEYS = frozenset({"topic", "partition", "replicas"})


def encode_reassignment(reassignment: Mapping[TopicPartition, Sequence[int]]) -> bytes:
    """Data of /admin/reassign_partitions: the target replicas, by partition."""
    partitions = [
        {"topic": topic, "partition": partition, "replicas": list(replicas)}
        for (topic, partition), replicas in reassignment.items()
    ]
    return encode_json({"version": _VERSION, "partitions": partitions})


def decode_reassignment(data: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
    """The target replicas, by partition.

    As in Kafka, an unknown key spoils the node. Raises ZnodeFormatError.
    """
    path = REASSIGN_PARTITIONS
    document = decode_json(path, data)
    entries = document.get("partitions", [])
    try:
        unknown = set(document) - _REASSIGNMENT_KEYS
        unknown |= {key for entry in entries for key in set(entry) - _PARTITION_KEYS}
        if unknown:
            raise ZnodeFormatError(f"{path}: unknown key {sorted(unknown)[0]}")
        return {_partition(entry): int32s(entry["replicas"]) for entry in entries}
    except (KeyError, TypeError, ValueError) as error:
        raise ZnodeFormatError(f"{path}: {error!r}") from error


def decode_preferred_election(data: bytes | None) -> frozenset[TopicPartition]:
    """The partitions that their first replica should lead. Raises ZnodeFormatError."""
    return _decode_partitions(PREFERRED_REPLICA_ELECTION, data)


def encode_isr_change(partitions: Iterable[TopicPartition]) -> bytes:
    return _encode_partitions(partitions)


def decode_isr_change(path: str, data: bytes | None) -> frozenset[TopicPartition]:
    """The partitions whose leader has changed the ISR. Raises ZnodeFormatError."""
    return _decode_partitions(path, data)


def encode_log_dir_event(broker_id: int) -> bytes:
    """Data of a log directory event: a directory of this broker has failed."""
    return encode_json({"version": _VERSION, "broker": broker_id, "event": LOG_DIR_FAILURE_EVENT})


def decode_log_dir_event(path: str, data: bytes | None) -> int:
    """The broker that lost a log directory. Raises ZnodeFormatError."""
    try:
        return int32(decode_json(path, data)["broker"])
    except (KeyError, ValueError) as error:
        raise ZnodeFormatError(f"{path}: {error!r}") from error


def _encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    entries = [{"topic": topic, "partition": partition} for topic, partition in partitions]
    return encode_json({"version": _VERSION, "partitions": entries})


def _decode_partitions(path: str, data: bytes | None) -> frozenset[TopicPartition]:
    try:
        entries = decode_json(path, data)["partitions"]
        return frozenset(_partition(entry) for entry in entries)
    except (KeyError, TypeError, ValueError) as error:
        raise ZnodeFormatError(f"{path}: {error!r}") from error


def _partition(entry: Mapping[str, Any]) -> TopicPartition:
    return TopicPartition(text(entry["topic"]), int32(entry["partition"]))
