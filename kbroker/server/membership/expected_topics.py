"""The topics that a starting broker will hear of: those that a controller can report.

Law: a controller reports a partition that has a state, and gives one to a partition without as soon
as a broker with a replica is there. Waiting for any other topic is in vain: its brokers are away or
never existed, its nodes are damaged, or no directory can have its name.
"""

from __future__ import annotations

from collections.abc import Callable

from kbroker.model import TopicPartition
from kbroker.replication.controller_requests.request_shapes import is_sound
from kbroker.zk import zk_paths
from kbroker.zk.zk_utils import ZkUtils


async def expected_topics(
    zk: ZkUtils, is_known: Callable[[str], bool], *, thoroughly: bool
) -> list[str]:
    """Return the sorted names of topics in the tree that are not known yet and will be reported.

    A live replica is enough unless state nodes are read `thoroughly`: there may be thousands, and
    hardly one is ever damaged.
    """
    names = set(await zk.topics()) - set(await zk.topic_deletions())
    assignments = await zk.topic_assignments(sorted(n for n in names if not is_known(n)))
    brokers = {broker.broker_id for broker in await zk.all_brokers()}
    has_live_replica = {
        TopicPartition(topic, partition): not brokers.isdisjoint(assigned.replicas)
        for topic, assignment in assignments.items()
        for partition, assigned in assignment.partitions.items()
        if is_sound(topic, partition)
    }
    expected: set[str] = set()
    if not thoroughly:
        expected.update(p.topic for p, is_live in has_live_replica.items() if is_live)
    unsure = [p for p in has_live_replica if p.topic not in expected]
    with_state = await zk.partition_states(unsure)
    expected.update(p.topic for p in with_state)
    # A node that cannot be read exists all the same, and prevents the first state.
    hopeful = [p for p in unsure if has_live_replica[p] and p not in with_state]
    nodes = await zk.tree.get_all([zk_paths.partition_state_path(*p) for p in hopeful])
    expected.update(p.topic for p, node in zip(hopeful, nodes, strict=True) if node is None)
    return sorted(expected)
