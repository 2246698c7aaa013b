"""LeaderElections: elections that somebody asks for, by ElectLeaders (KIP-460) or by
/admin/preferred_replica_election, and the ones that keep leaders balanced.

Law: only an unclean election that a person asks for may lose records; the balance, which runs by
itself if it is enabled, never does. The node of a request is removed once it has been handled,
whatever the outcome, so that it is not handled twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kbroker.config.replication_config import ReplicationConfig
from kbroker.controller.event_handlers.cluster_watches import ClusterWatches
from kbroker.controller.event_handlers.state_changes import StateChanges
from kbroker.controller.state_machines.events import Event
from kbroker.controller.state_machines.leader_balance import unbalanced_partitions
from kbroker.controller.state_machines.partition_state_machine import ElectionStrategy
from kbroker.controller.state_machines.requested_elections import (
    AutoPreferredReplicaLeaderElection,
    ElectionResults,
    ElectionType,
    ElectLeaders,
    ZkPreferredElection,
    failed_election,
    sort_out,
)
from kbroker.errors import KafkaError
from kbroker.model import TopicPartition
from kbroker.zk.nodes.zk_admin_requests import ZkAdminRequests

_log = logging.getLogger(__name__)

FIRST_BALANCE_AFTER_S = 5.0
_STRATEGIES = {
    ElectionType.PREFERRED: ElectionStrategy.PREFERRED,
    ElectionType.UNCLEAN: ElectionStrategy.UNCLEAN,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class LeaderBalanceSettings:
    """The schedule of the balance; an interval of None switches it off."""

    check_interval_s: float | None = None
    imbalance_per_broker_percentage: int = 10

    @classmethod
    def of(cls, config: ReplicationConfig) -> LeaderBalanceSettings:
        """Take the values from the broker's settings."""
        is_on = config.auto_leader_rebalance_enable
        return cls(
            check_interval_s=config.leader_imbalance_check_interval_seconds if is_on else None,
            imbalance_per_broker_percentage=config.leader_imbalance_per_broker_percentage,
        )


NO_LEADER_BALANCE = LeaderBalanceSettings()


class LeaderElections:
    """Works requested elections and the balance. Owned by the controller's queue."""

    def __init__(
        self,
        states: StateChanges,
        watches: ClusterWatches,
        put: Callable[[Event], object],
        settings: LeaderBalanceSettings,
    ) -> None:
        self._states = states
        self._watches = watches
        self._context = states.context
        self._requests = ZkAdminRequests(states.zk)
        self._put = put
        self._settings = settings
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """A new controller: work the request that may be waiting, and keep leaders balanced."""
        await self._work_request()
        if self._settings.check_interval_s is not None:
            self._balance_after(FIRST_BALANCE_AFTER_S)

    def stop(self) -> None:
        """Another controller takes over."""
        if self._timer is not None:
            self._timer.cancel()

    async def on_elect_leaders(self, event: ElectLeaders) -> ElectionResults:
        return await self._elect(event.partitions, event.election_type)

    async def on_zk_request(self, _event: ZkPreferredElection) -> None:
        await self._work_request()

    async def on_balance(self, _event: AutoPreferredReplicaLeaderElection) -> None:
        """Give leaderships back to brokers that have lost too many."""
        percentage = self._settings.imbalance_per_broker_percentage
        for broker_id, partitions in unbalanced_partitions(self._context, percentage).items():
            _log.info("broker %d is to lead %d partitions again", broker_id, len(partitions))
            await self._states.partitions_online(partitions, ElectionStrategy.PREFERRED)
        if self._settings.check_interval_s is not None:
            self._balance_after(self._settings.check_interval_s)

    async def _work_request(self) -> None:
        wanted = await self._requests.preferred_election(self._watches.preferred_election)
        if wanted is None:
            return
        for partition, result in (await self._elect(wanted, ElectionType.PREFERRED)).items():
            if isinstance(result, KafkaError):
                _log.info("no preferred leader elected for %s: %s", partition, result)
        await self._requests.delete_preferred_election(self._context.epoch_version)

    async def _elect(
        self, partitions: Iterable[TopicPartition], election_type: ElectionType
    ) -> ElectionResults:
        electable, results = sort_out(self._context, partitions, election_type)
        before = {p: self._context.leadership[p].leader_and_isr.leader_epoch for p in electable}
        await self._states.partitions_online(electable, _STRATEGIES[election_type])
        for partition in electable:
            state = self._context.leadership[partition].leader_and_isr
            is_elected = state.leader_epoch > before[partition]
            results[partition] = (
                state.leader if is_elected else failed_election(partition, election_type)
            )
        return results

    def _balance_after(self, delay_s: float) -> None:
        self.stop()
        self._timer = asyncio.get_running_loop().call_later(
            delay_s, self._put, AutoPreferredReplicaLeaderElection()
        )
