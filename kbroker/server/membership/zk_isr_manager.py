"""Writes ISRs into the tree and notifies the controller, as leaders did before Kafka 2.7, and still
do if `inter.broker.protocol.version` says that their controller may be that old (Kafka's name).

Law: a state is written over the version that the leader knows, under the epoch of the controller
that made it leader. If that version is gone, the controller has decided something else and will say
so; or the node holds just what was wanted, because an earlier answer was lost. A written state is
announced, however often that fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from kbroker.config.message_format import version_numbers
from kbroker.errors import ErrorCode
from kbroker.model import LeaderAndIsr, TopicPartition
from kbroker.replication.controller_requests.alter_partition_manager import IsrAnswer, Proposal
from kbroker.zk import zk_paths
from kbroker.zk.nodes.zk_notifications import ZkNotifications
from kbroker.zk.tree import BadVersionError, NoNodeError, OpResult, SetOp, Stat, TreeError
from kbroker.zk.zk_utils import ZkUtils

Outcomes = dict[TopicPartition, LeaderAndIsr | ErrorCode]
_FIRST_THAT_ASKS = (2, 7)
_BEFORE_IT = re.compile(r"2\.7-IV[01]")  # the request came with 2.7-IV2


def asks_controller(inter_broker_protocol_version: str) -> bool:
    """Whether leaders ask the controller for ISRs (KIP-497)."""
    if _BEFORE_IT.fullmatch(inter_broker_protocol_version):
        return False
    return version_numbers(inter_broker_protocol_version) >= _FIRST_THAT_ASKS


class ZkIsrManager:
    """Writes the ISRs of one broker. Owned by the event loop."""

    def __init__(self, zk: ZkUtils) -> None:
        self._zk = zk
        self._news = ZkNotifications(zk)
        self._unannounced: set[TopicPartition] = set()

    async def ask(self, proposals: Mapping[TopicPartition, Proposal]) -> IsrAnswer:
        """Write what may be written. Raises TreeUnavailableError."""
        outcomes: Outcomes = {}
        operations = [(_operation(p),) for p in proposals.values()]
        results = await self._zk.tree.multi_all(operations)
        passed_by = []
        for (partition, proposal), result in zip(proposals.items(), results, strict=True):
            if isinstance(result, BadVersionError):
                passed_by.append(partition)
            else:
                outcomes[partition] = _outcome(proposal.wanted, result)
        outcomes |= await self._of_others(passed_by, proposals)
        await self._announce(tp for tp, o in outcomes.items() if isinstance(o, LeaderAndIsr))
        return IsrAnswer(ErrorCode.NONE, outcomes)

    async def _of_others(
        self, partitions: list[TopicPartition], proposals: Mapping[TopicPartition, Proposal]
    ) -> Outcomes:
        """Return the outcomes of partitions whose node has another version."""
        outcomes: Outcomes = dict.fromkeys(partitions, ErrorCode.INVALID_UPDATE_VERSION)
        for partition, found in (await self._zk.partition_states(partitions)).items():
            wanted, there = proposals[partition].wanted, found.leader_and_isr
            if replace(there, partition_epoch=wanted.partition_epoch) == wanted:
                outcomes[partition] = there
        return outcomes

    async def _announce(self, changed: Iterable[TopicPartition]) -> None:
        self._unannounced.update(changed)
        if self._unannounced:
            await self._news.propagate_isr_changes(sorted(self._unannounced))
            self._unannounced.clear()


def _operation(proposal: Proposal) -> SetOp:
    wanted, partition = proposal.wanted, proposal.partition
    return SetOp(
        zk_paths.partition_state_path(*partition.topic_partition),
        zk_paths.encode_partition_state(wanted, partition.state.controller_epoch),
        wanted.partition_epoch,
    )


def _outcome(wanted: LeaderAndIsr, result: list[OpResult] | TreeError) -> LeaderAndIsr | ErrorCode:
    if isinstance(result, NoNodeError):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if isinstance(result, TreeError):
        raise result
    (stat,) = result
    assert isinstance(stat, Stat)
    return replace(wanted, partition_epoch=stat.version)
