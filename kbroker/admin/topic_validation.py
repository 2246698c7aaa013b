"""Checks of topics' names and layouts, with Kafka 3.9's refusals.

Pure. Every function returns nothing and raises KafkaError.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from kbroker.errors import ErrorCode, KafkaError
from kbroker.topic_name import topic_name_fault


def validate_topic_name(name: str) -> None:
    """Raises INVALID_TOPIC_EXCEPTION for a name that cannot be a topic's."""
    fault = topic_name_fault(name)
    if fault is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")


class MetricNames:
    """The names of topics as metrics show them, where "." and "_" are the same."""

    def __init__(self, topics: Iterable[str]) -> None:
        self._topics: dict[str, set[str]] = {}
        for topic in topics:
            self.add(topic)

    def add(self, topic: str) -> None:
        """Add the name of an existing topic."""
        if "." in topic or "_" in topic:
            self._topics.setdefault(topic.replace(".", "_"), set()).add(topic)

    def check(self, name: str) -> None:
        """Raises INVALID_TOPIC_EXCEPTION if metrics could not tell another topic from it."""
        colliding = sorted(self._topics.get(name.replace(".", "_"), set()) - {name})
        if colliding:
            message = f"Topic '{name}' collides with existing topics: {', '.join(colliding)}"
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)


def validate_assignment(assignment: Mapping[int, Sequence[int]], brokers: Collection[int]) -> None:
    """Raises INVALID_REPLICA_ASSIGNMENT for replica lists that cannot make a topic.

    As in Kafka 4, these include lists without brokers, and brokers that do not exist: 3.9 creates
    such a topic, which nobody can lead or delete, and answers that the time is up.
    """
    if len({len(replicas) for replicas in assignment.values()}) != 1:
        message = "All partitions should have the same number of replicas"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    if any(len(set(replicas)) != len(replicas) for replicas in assignment.values()):
        shown = ", ".join(f"{p} -> {_array(replicas)}" for p, replicas in assignment.items())
        message = f"Duplicate replica assignment found: HashMap({shown})"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    if sorted(assignment) != list(range(len(assignment))):
        message = "partitions should be a consecutive 0-based integer sequence"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    if not all(assignment.values()):
        message = "The manual partition assignment includes an empty replica list."
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    unknown = next(
        (b for replicas in assignment.values() for b in replicas if b not in brokers), None
    )
    if unknown is not None:
        message = (
            f"The manual partition assignment includes broker {unknown}, "
            "but no such broker is registered."
        )
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def validate_added_assignments(
    added: Mapping[int, Sequence[int]], increase: int, brokers: Iterable[int], factor: int
) -> None:
    """Raises INVALID_REPLICA_ASSIGNMENT for replica lists that do not fit a topic of `factor`."""
    known = set(brokers)
    unknown = sorted({b for replicas in added.values() for b in replicas} - known)
    empty = next((p for p, replicas in added.items() if not replicas), None)
    double = next((p for p, replicas in added.items() if len(set(replicas)) < len(replicas)), None)
    if unknown:
        message = f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))}."
    elif len(added) != increase:
        message = (
            f"Increasing the number of partitions by {increase} "
            f"but {len(added)} assignments provided."
        )
    elif empty is not None:
        message = f"Cannot have replication factor of 0 for partition id {empty}."
    elif double is not None:
        message = (
            "Duplicate brokers not allowed in replica assignment: "
            f"{', '.join(map(str, added[double]))} for partition id {double}."
        )
    elif any(len(replicas) != factor for replicas in added.values()):
        message = f"Inconsistent replication factor between partitions, partition 0 has {factor}."
    else:
        return
    raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def validate_increase(current: int, requested: int) -> None:
    """Raises INVALID_PARTITIONS unless the number of partitions grows."""
    if requested < current:
        message = (
            f"Topic currently has {current} partitions, "
            f"which is higher than the requested {requested}."
        )
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)
    if requested == current:
        message = f"Topic already has {current} partitions."
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)


def _array(values: Sequence[int]) -> str:
    return f"ArrayBuffer({', '.join(map(str, values))})"
