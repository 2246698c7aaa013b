"""uniform: every member reads as many partitions as the others, and as few as possible move.

Pure. Among equals the place in Kafka's table of members decides: a HashMap, into which they come as
they stand in the group.
"""

from __future__ import annotations

from typing import Final

from kbroker.coordinator.consumer_group.assignors.assignor import (
    Assignment,
    GroupSpec,
    SubscriptionType,
    Topics,
    member_hash,
)
from kbroker.coordinator.consumer_group.assignors.uniform_heterogeneous import assign_evenly
from kbroker.coordinator.consumer_group.assignors.uniform_homogeneous import assign_equally
from kbroker.java_hash import hash_map_order


class UniformAssignor:
    """Kafka's UniformAssignor; racks do not count, as there."""

    name: Final = "uniform"
    setting: Final = None

    def assign(self, spec: GroupSpec, topics: Topics) -> dict[str, Assignment]:
        """Return the new target of each member. Raises AssignorError."""
        if not spec.members:
            return {}
        in_order = hash_map_order(spec.members, 16, member_hash)
        spec = spec._replace(members={one: spec.members[one] for one in in_order})
        if spec.subscription_type is SubscriptionType.HOMOGENEOUS:
            return assign_equally(spec, topics)
        return assign_evenly(spec, topics)
