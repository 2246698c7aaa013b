"""AlterPartitionManager: carries the ISRs that leaders propose to the controller (Kafka's name).

Law: one proposal of a partition at a time, one request at a time. A proposal lives as long as the
state it was made in: an order of the controller that came meanwhile has replaced it, and what is
answered to it then changes nothing. Until there is an answer the leader waits for the replicas of
both ISRs, so it is asked again for as long as the broker runs.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import LeaderAndIsr, TopicPartition
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.writes.shared_flush import SAFE_REPLICAS

_log = logging.getLogger(__name__)

RETRY_BACKOFF_S = 0.05

# The controller has decided something else, and tells it: the proposal waits to be replaced.
_SUPERSEDED = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
# It is not to be now; the ISR stays what it was. (OPERATION_NOT_ATTEMPTED is asked
# again: the controller was reading the cluster, and may yet write an earlier question for it.)
_REFUSED = frozenset({ErrorCode.INELIGIBLE_REPLICA})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Proposal:
    """An ISR that a leader asks for; epochs are those in which replicas were seen, by broker."""

    partition: Partition
    wanted: LeaderAndIsr
    epochs: Mapping[int, int]

    @property
    def is_alive(self) -> bool:
        """Whether the partition still waits for this very proposal."""
        state = self.partition.state
        return (
            state.is_leader
            and state.leader_epoch == self.wanted.leader_epoch
            and state.pending_isr is self.wanted.isr
        )


class Outcome(NamedTuple):
    """What the controller said: `error` to all, else something to each partition."""

    error: ErrorCode
    partitions: Mapping[TopicPartition, LeaderAndIsr | ErrorCode]


AskController = Callable[[Mapping[TopicPartition, Proposal]], Awaitable[Outcome]]
"""Asks whoever is controller. Raises KafkaError, OSError or TreeUnavailableError."""


class Settle(Protocol):
    """Hears of ISRs that are in force (ReplicaManager)."""

    def isr_settled(
        self, topic_partition: TopicPartition, isr: tuple[int, ...], partition_epoch: int
    ) -> None:
        """The state node holds that ISR now."""
        ...


class AlterPartitionManager:
    """One broker's proposals."""

    def __init__(
        self,
        ask: AskController,
        settle: Settle,
        is_alive: Callable[[int], bool],
        before_shrink: Callable[[Partition], Awaitable[bool]] | None = None,
    ) -> None:
        """`is_alive` knows whether a broker may join an ISR. `before_shrink` is awaited before an
        ISR that leaves its leader alone is asked for; False calls that off.
        """
        self._ask = ask
        self._settle = settle
        self._before_shrink = before_shrink
        self.may_join = is_alive
        self._pending: dict[TopicPartition, Proposal] = {}
        self._preparing: set[asyncio.Task[None]] = set()
        self._submitted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to ask."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="ISR changes")

    async def stop(self) -> None:
        """Return when nothing is asked any more."""
        tasks = [task for task in (self._task, *self._preparing) if task is not None]
        self._task = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def propose(self, partition: Partition, isr: tuple[int, ...]) -> None:
        """Ask for an ISR; the partition's state has it as pending."""
        state = partition.state
        proposal = Proposal(
            partition=partition,
            wanted=LeaderAndIsr(
                leader=state.local_id,
                leader_epoch=state.leader_epoch,
                isr=isr,
                partition_epoch=state.partition_epoch,
            ),
            epochs={broker_id: partition.follower_epoch(broker_id) for broker_id in isr},
        )
        if self._before_shrink is not None and len(isr) < SAFE_REPLICAS <= len(state.isr):
            self._prepare(proposal)
        else:
            self._submit(proposal)

    def _prepare(self, proposal: Proposal) -> None:
        task = asyncio.get_running_loop().create_task(
            self._shrink(proposal), name="flush before an ISR change"
        )
        self._preparing.add(task)
        task.add_done_callback(self._preparing.discard)

    async def _shrink(self, proposal: Proposal) -> None:
        assert self._before_shrink is not None
        if await self._before_shrink(proposal.partition):
            self._submit(proposal)
        elif proposal.is_alive:
            proposal.partition.isr_refused()

    def _submit(self, proposal: Proposal) -> None:
        self._pending[proposal.partition.topic_partition] = proposal
        self._submitted.set()

    async def _run(self) -> None:
        while True:
            await self._submitted.wait()
            self._submitted.clear()
            asked = {tp: p for tp, p in self._pending.items() if p.is_alive}
            self._pending.clear()
            if not asked:
                continue
            again = await self._ask_for(asked)
            for topic_partition, proposal in again.items():
                self._pending.setdefault(topic_partition, proposal)
            if again:
                await asyncio.sleep(RETRY_BACKOFF_S)
                self._submitted.set()

    async def _ask_for(
        self, asked: Mapping[TopicPartition, Proposal]
    ) -> Mapping[TopicPartition, Proposal]:
        """Ask once; returns what is to be asked again."""
        try:
            outcome = await self._ask(asked)
        except (KafkaError, OSError, TimeoutError) as error:
            _log.debug("no answer to %d ISR changes: %r", len(asked), error)
            return asked
        except Exception as error:  # the tree out of reach among them; one day there is an answer
            _log.info("%d ISR changes are asked for again: %r", len(asked), error)
            return asked
        if outcome.error is not ErrorCode.NONE:
            _log.debug("%d ISR changes: %s", len(asked), outcome.error.name)
            return asked
        return {
            topic_partition: proposal
            for topic_partition, proposal in asked.items()
            if not self._is_answered(proposal, outcome.partitions.get(topic_partition))
        }

    def _is_answered(self, proposal: Proposal, answer: LeaderAndIsr | ErrorCode | None) -> bool:
        """Act on an answer; False if the proposal is to be made again."""
        if not proposal.is_alive or answer in _SUPERSEDED:
            return True
        partition = proposal.partition
        if answer in _REFUSED:
            partition.isr_refused()
            return True
        if not isinstance(answer, LeaderAndIsr):
            return False
        wanted = proposal.wanted
        if answer.leader_epoch != wanted.leader_epoch:
            return answer.leader_epoch > wanted.leader_epoch  # of a later leader: its order comes
        if answer.partition_epoch < wanted.partition_epoch:
            return False  # from a controller that was replaced
        _log.info("ISR of %s: %s", partition.topic_partition, answer.isr)
        self._settle.isr_settled(partition.topic_partition, answer.isr, answer.partition_epoch)
        return True
