"""An assignor, what it is given and what it gives back.

Pure. All that an assignor sees was put together before and changes no more: it may run on a thread
while the group goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import NamedTuple, Protocol
from uuid import UUID

from kbroker.java_hash import hash_map_order, java_hash, timeline_map_order

_HASHES_KEPT = 1 << 15

Assignment = Mapping[UUID, frozenset[int]]
"""The partitions of a member by topic id; a topic of which it has none is not there."""

_NOBODY_IS_THERE: frozenset[str] = frozenset()


class AssignorError(Exception):
    """An assignor cannot assign: its sentence is for the log and for the member that asked."""


class SubscriptionType(Enum):
    """Whether all members of a group read the same topics."""

    HOMOGENEOUS = "Homogeneous"
    HETEROGENEOUS = "Heterogeneous"


class MemberSpec(NamedTuple):
    """A member as an assignor sees it. Only topics that exist are among those it subscribes to."""

    instance_id: str | None  # of a static member
    rack_id: str | None
    topic_ids: frozenset[UUID]
    assigned: Assignment  # its target so far


class GroupSpec(NamedTuple):
    """A group as an assignor sees it."""

    members: Mapping[str, MemberSpec]
    subscription_type: SubscriptionType


def order_of_members(member_ids: Iterable[str], joining: str | None = None) -> list[str]:
    """The order in which Kafka keeps members while it assigns, and writes their new targets; given
    the order in which they have joined.

    `joining`: one who is not among them yet.
    """
    come = timeline_map_order(member_ids, member_hash)
    return hash_map_order(come if joining is None else [*come, joining], 16, member_hash)


member_hash = lru_cache(_HASHES_KEPT)(java_hash)  # a group asks for the same with each new target


class Topics:
    """Topics as an assignor sees them."""

    def __init__(
        self,
        partition_counts: Mapping[UUID, int],
        racks: Mapping[UUID, Sequence[frozenset[str]]] | None = None,
    ) -> None:
        """`racks`: by topic id, for each partition, where its replicas are."""
        self._partition_counts = partition_counts
        self._racks = racks or {}

    def partition_count(self, topic_id: UUID) -> int:
        """Count the partitions of a topic; -1 stands for one that is not known."""
        return self._partition_counts.get(topic_id, -1)

    @property
    def all_partitions(self) -> int:
        """The number of partitions of all of them."""
        return sum(self._partition_counts.values())

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Topics)
            and self._partition_counts == other._partition_counts
            and self._racks == other._racks
        )

    def __hash__(self) -> int:
        return hash(frozenset(self._partition_counts))

    def racks(self, topic_id: UUID, partition: int) -> frozenset[str]:
        """The racks with a replica of a partition."""
        of_topic = self._racks.get(topic_id, ())
        return of_topic[partition] if 0 <= partition < len(of_topic) else _NOBODY_IS_THERE


class Assignor(Protocol):
    """A way to say who reads what."""

    @property
    def name(self) -> str:
        """The name that clients ask for it by."""

    @property
    def setting(self) -> str | None:
        """The operator's code, as it is named by the setting; None for one of Kafka's own."""

    def assign(self, spec: GroupSpec, topics: Topics) -> Mapping[str, Assignment]:
        """Return the new target of each member. Raises AssignorError."""
