"""Plans where the replicas of a drained broker go.

Pure. Each replica goes to the broker with the fewest, in a rack that the partition is not in yet if
there is one; all other replicas stay. If the drained broker was the preferred leader, the broker
that is preferred for the fewest partitions takes its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kbroker.model import TopicPartition

Replicas = Mapping[TopicPartition, Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPlan:
    """`targets`: new replicas of the partitions that can leave; `stuck`: those that no other broker
    can take.
    """

    targets: Mapping[TopicPartition, tuple[int, ...]]
    stuck: Sequence[TopicPartition]


def plan_drain(
    broker: int,
    replicas: Replicas,
    brokers: Mapping[int, str | None],
    staying: Collection[TopicPartition] = (),
) -> DrainPlan:
    """Plan a drain. `replicas`: of all partitions, as if moves under way had ended; `brokers`:
    those that are online, with their racks (those without a rack share one); partitions that are
    `staying` get no target.
    """
    spreading = _Spreading(broker, replicas, brokers)
    targets: dict[TopicPartition, tuple[int, ...]] = {}
    stuck = []
    for place in sorted(place for place, each in replicas.items() if broker in each):
        if place in staying:
            continue
        target = spreading.without_broker(replicas[place])
        if target is None:
            stuck.append(place)
        else:
            targets[place] = target
    return DrainPlan(targets=targets, stuck=stuck)


class _Spreading:
    """Counts the replicas that each broker holds, and will hold."""

    def __init__(self, broker: int, replicas: Replicas, brokers: Mapping[int, str | None]) -> None:
        self._broker = broker
        self._racks = brokers
        self._others = sorted(set(brokers) - {broker})
        self._held = Counter(_all_of(replicas.values()))
        self._preferred = Counter(each[0] for each in replicas.values() if each)

    def without_broker(self, replicas: Sequence[int]) -> tuple[int, ...] | None:
        """Return the replicas with another broker in place of the one that goes; None: no other."""
        free = [each for each in self._others if each not in replicas]
        if not free:
            return None
        taken = {
            self._racks[each] for each in replicas if each != self._broker and each in self._racks
        }
        chosen = min(free, key=lambda each: (self._racks[each] in taken, self._held[each], each))
        self._held[chosen] += 1
        target = [chosen if each == self._broker else each for each in replicas]
        if replicas[0] == self._broker:
            first = min(range(len(target)), key=lambda at: (self._preferred[target[at]], at))
            target[0], target[first] = target[first], target[0]
            self._preferred[target[0]] += 1
        return tuple(target)


def _all_of(replicas: Iterable[Sequence[int]]) -> Iterable[int]:
    return (broker for each in replicas for broker in each)
