"""Kafka's spreading of a new topic's partitions over brokers, with and without racks.

Pure: the random start comes in as `SpreadStart`. Aims: the replicas of a broker's partitions are
spread over the others, leaders evenly over all brokers, and with racks each partition over as many
racks as it has replicas.

The first replica of partition p sits on broker (start + p) of the list; the others follow it at a
distance that grows by one each time the partitions have gone round the list once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ReplicaAssignment

# As in Kafka 4: one topic of 2^31 partitions would take all memory and all time of the cluster.
MAX_PARTITIONS_AT_ONCE = 10_000
MAX_PARTITIONS_IN_ALL = 200_000  # of all topics in a request; Kafka 4 has 10,000 here, too


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SpreadStart:
    """Where to start: the first leader's index, and the first distance of the next replica."""

    start_index: int
    replica_shift: int


def assign_replicas(
    brokers: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    spread: SpreadStart,
    first_partition: int = 0,
) -> dict[int, list[int]]:
    """Replicas by partition number; `brokers` maps ids to racks.

    Raises KafkaError INVALID_PARTITIONS, POLICY_VIOLATION for more than `MAX_PARTITIONS_AT_ONCE`,
    INVALID_REPLICATION_FACTOR. If only some brokers have racks, the others share one, as in Kafka 4
    (3.9 refuses such a cluster).
    """
    if partitions <= 0:
        message = "Number of partitions must be larger than 0."
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)
    check_partitions_at_once(partitions)
    if replication_factor <= 0:
        message = "Replication factor must be larger than 0."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if replication_factor > len(brokers):
        message = (
            f"Replication factor: {replication_factor} "
            f"larger than available brokers: {len(brokers)}."
        )
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if not any(rack is not None for rack in brokers.values()):
        return _assign(
            sorted(brokers), {}, range(partitions), replication_factor, spread, first_partition
        )
    racks = {broker: rack or "" for broker, rack in brokers.items()}
    order = alternate_racks(racks)
    return _assign(order, racks, range(partitions), replication_factor, spread, first_partition)


def check_partitions_at_once(partitions: int) -> None:
    """KafkaError POLICY_VIOLATION for more than a topic gets at once, in any form."""
    if partitions > MAX_PARTITIONS_AT_ONCE:
        raise too_many_partitions()


def too_many_partitions() -> KafkaError:
    """The refusal of more partitions than one request may ask for."""
    message = "Excessively large number of partitions per request."
    return KafkaError(ErrorCode.POLICY_VIOLATION, message)


def shared_assignments(replicas: Mapping[int, Sequence[int]]) -> dict[int, ReplicaAssignment]:
    """The assignments in the order of partitions; those with the same replicas are one object, as
    thousands of partitions have a few layouts.
    """
    made: dict[tuple[int, ...], ReplicaAssignment] = {}
    assignments = {}
    for partition in sorted(replicas):
        layout = tuple(replicas[partition])
        assignment = made.get(layout)
        if assignment is None:
            assignment = made[layout] = ReplicaAssignment(replicas=layout)
        assignments[partition] = assignment
    return assignments


def alternate_racks(racks: Mapping[int, str]) -> list[int]:
    """The brokers, one of each rack in turn; racks, and brokers within them, sorted."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    queues = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max(map(len, queues))
    return [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]


def _assign(
    order: Sequence[int],
    racks: Mapping[int, str],
    partitions: range,
    replication_factor: int,
    spread: SpreadStart,
    first_partition: int,
) -> dict[int, list[int]]:
    count = len(order)
    shift = spread.replica_shift
    assignment: dict[int, list[int]] = {}
    for partition in range(first_partition, first_partition + len(partitions)):
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + spread.start_index) % count
        others = (
            _others_by_rack(order, racks, first, shift, replication_factor)
            if racks
            else [
                order[_replica_index(first, shift, k, count)] for k in range(replication_factor - 1)
            ]
        )
        assignment[partition] = [order[first], *others]
    return assignment


def _others_by_rack(
    order: Sequence[int], racks: Mapping[int, str], first: int, shift: int, replication_factor: int
) -> list[int]:
    """The further replicas: a rack or a broker is taken again only when all others have been."""
    count = len(order)
    rack_count = len(set(racks.values()))
    chosen = [order[first]]
    used_racks = {racks[order[first]]}
    step = 0
    while len(chosen) < replication_factor:
        broker = order[_replica_index(first, shift * rack_count, step, count)]
        step += 1
        rack_is_free = racks[broker] not in used_racks or len(used_racks) == rack_count
        if rack_is_free and broker not in chosen:
            chosen.append(broker)
            used_racks.add(racks[broker])
    return chosen[1:]


def _replica_index(first: int, shift: int, replica: int, count: int) -> int:
    return (first + 1 + (shift + replica) % (count - 1)) % count
