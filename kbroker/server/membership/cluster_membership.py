"""How a broker becomes part of its cluster, and how it leaves.

Law: clients are served once the controller has told this broker of itself and of every topic, and
what to lead: no client hears that an existing topic does not exist. The broker waits for a slow
controller, but a single odd topic does not hold it up for long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from kbroker.controller.kafka_controller import KafkaController
from kbroker.model import LEADER_DURING_DELETE, TopicPartition
from kbroker.peers.metadata_waiter import MetadataWaiter
from kbroker.replication.controller_requests.request_shapes import is_sound
from kbroker.replication.metadata_cache import MetadataCache, PartitionState
from kbroker.zk import zk_paths
from kbroker.zk.tree import TreeUnavailableError
from kbroker.zk.zk_utils import ZkUtils

_log = logging.getLogger(__name__)

SAY_INTERVAL_MS = 10_000.0  # between two lines about what is awaited
LOOK_CLOSER_MS = 500.0  # before finding out which topics will ever be reported
TOPICS_ROUNDS = 4  # before the broker serves without the topics it has not heard of
LEADERSHIP_WAIT_MS = 5_000.0  # clients ask again while a partition has no leader


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ClusterMembership:
    """The way of one broker into its cluster. Owned by the event loop.

    `holds` says whether a partition has been taken over, or cannot be; `failure` says why the
    broker cannot go on, and `waiter` is notified of that.
    """

    broker_id: int
    zk: ZkUtils
    controller: KafkaController
    metadata: MetadataCache
    waiter: MetadataWaiter
    register: Callable[[], Awaitable[object]]
    holds: Callable[[TopicPartition], bool] = lambda _: True
    failure: Callable[[], Exception | None] = lambda: None

    async def join(self) -> None:
        """Register, compete for the controller's seat, and return once clients can be served.

        Raises BrokerIdInUseError, or the error that `failure` returns.
        """
        session_id = self.zk.tree.session_id
        await self.register()
        await self.controller.startup()
        if self.zk.tree.session_id != session_id:  # before the controller followed it
            await self.register()
        await self._until_known()
        await self._until_topics_are_known()
        if not await self.waiter.wait_until(self._leads_its_own, LEADERSHIP_WAIT_MS):
            _log.warning(
                "broker %d starts to serve before it leads all of its partitions",
                self.broker_id,
            )

    async def _until_known(self) -> None:
        while not await self.waiter.wait_until(self._is_settled, SAY_INTERVAL_MS):
            who = self.controller.controller_id
            _log.warning(
                "%s: broker %d waits for the cluster's metadata",
                f"the controller, broker {who}, is slow" if who >= 0 else "there is no controller",
                self.broker_id,
            )
        failure = self.failure()
        if failure is not None:
            raise failure

    def _is_settled(self) -> bool:
        return self.failure() is not None or self.metadata.broker(self.broker_id) is not None

    async def _until_topics_are_known(self) -> None:
        missing = await self._untold_topics(thoroughly=False)
        wait_ms = LOOK_CLOSER_MS
        for _ in range(TOPICS_ROUNDS):
            if await self.waiter.wait_until(partial(self._knows, missing), wait_ms):
                return
            missing = await self._untold_topics(thoroughly=True)
            if missing and wait_ms == SAY_INTERVAL_MS:
                _log.warning(
                    "the controller has not yet sent the metadata of %d topics: %.500s",
                    len(missing),
                    missing,
                )
            wait_ms = SAY_INTERVAL_MS
        if missing:
            _log.error("serving without %d topics: %.500s", len(missing), missing)

    def _leads_its_own(self) -> bool:
        """Whether this broker has taken over what it should lead, or alone can lead."""
        own = self.broker_id
        for topic in self.metadata.topics():
            for index, state in self.metadata.partition_states(topic).items():
                if state.leader == own:
                    if not self.holds(TopicPartition(topic, index)):
                        return False
                elif state.leader != LEADER_DURING_DELETE and _is_to_lead(own, state):
                    return False
        return True

    def _knows(self, topics: list[str]) -> bool:
        return all(map(self.metadata.contains_topic, topics))

    async def _untold_topics(self, *, thoroughly: bool) -> list[str]:
        """Return the topics that the controller should report, and has not."""
        is_known = self.metadata.contains_topic
        while True:
            try:
                return await expected_topics(self.zk, is_known, thoroughly=thoroughly)
            except TreeUnavailableError as error:
                _log.warning("the topics of the cluster cannot be read now: %r", error)
                await asyncio.sleep(1.0)


def _is_to_lead(broker_id: int, state: PartitionState) -> bool:
    """Whether this broker alone can lead a partition, without loss of records."""
    return (
        list(state.replicas) == [broker_id]
        and broker_id in state.isr
        and broker_id not in state.offline_replicas
    )


async def expected_topics(
    zk: ZkUtils, is_known: Callable[[str], bool], *, thoroughly: bool
) -> list[str]:
    """Return the sorted names of topics in the tree that are not known yet and will be reported.

    A controller reports a partition that has a state, and gives one to a partition without as soon
    as a broker with a replica is there. Waiting for any other topic is in vain: its brokers are
    away or never existed, its nodes are damaged, or no directory can have its name. A live replica
    is enough unless state nodes are read `thoroughly`: there may be thousands, and hardly one is
    ever damaged.
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
