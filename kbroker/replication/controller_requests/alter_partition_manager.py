"""AlterPartitionManager: carries the ISRs that leaders propose to the controller (Kafka's name).

Law: one proposal per partition and one request at a time. A proposal lives as long as the state it
was made in: once the controller orders something else, an answer to it changes nothing. Until an
answer comes, the leader waits for the replicas of both ISRs, so the question is repeated for as
long as the broker runs.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from kbroker.counters import Counter, CounterRegistry, MetricName
from kbroker.errors import ErrorCode, KafkaError
from kbroker.events.event import Note, nobody_notes
from kbroker.model import LeaderAndIsr, TopicPartition
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.writes.shared_flush import SAFE_REPLICAS

if TYPE_CHECKING:
    from kbroker.events.partition_events import IsrChange

_log = logging.getLogger(__name__)

RETRY_BACKOFF_S = 0.05

# The controller has decided something else and will say so: the proposal waits to be replaced.
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
# Refused for now; the ISR stays as it was. (OPERATION_NOT_ATTEMPTED is asked again: the controller
# was reading the cluster, and may still write what an earlier question asked for.)
_REFUSED = frozenset({ErrorCode.INELIGIBLE_REPLICA})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Proposal:
    """An ISR that a leader asks for; `epochs` are those its replicas last fetched in, by broker.
    `change` says why.
    """

    partition: Partition
    wanted: LeaderAndIsr
    epochs: Mapping[int, int]
    change: IsrChange

    @property
    def is_alive(self) -> bool:
        """Whether the partition still waits for this very proposal."""
        state = self.partition.state
        return (
            state.is_leader
            and state.leader_epoch == self.wanted.leader_epoch
            and state.pending_isr is self.wanted.isr
        )


class IsrAnswer(NamedTuple):
    """The controller's answer: an `error` for all partitions, or a result for each."""

    error: ErrorCode
    partitions: Mapping[TopicPartition, LeaderAndIsr | ErrorCode]


AskController = Callable[[Mapping[TopicPartition, Proposal]], Awaitable[IsrAnswer]]
"""Asks whoever is controller. Raises KafkaError, OSError or TreeUnavailableError."""

Settle = Callable[[TopicPartition, tuple[int, ...], int], None]
"""Called with an ISR that the state node holds now, and the node's version."""


class AlterPartitionManager:
    """The proposals of one broker, which lie here until they are answered."""

    def __init__(
        self,
        ask: AskController,
        settle: Settle,
        is_alive: Callable[[int], bool],
        before_shrink: Callable[[Partition], Awaitable[bool]] | None = None,
        note: Note = nobody_notes,
    ) -> None:
        """`is_alive` says whether a broker may join an ISR. `before_shrink` is awaited before
        asking for an ISR that leaves its leader alone; False calls that off.
        """
        self._ask = ask
        self._settle = settle
        self._before_shrink = before_shrink
        self._note = note
        self.may_join = is_alive
        self._refused = Counter()
        self._pending: dict[TopicPartition, Proposal] = {}
        self._preparing: set[asyncio.Task[None]] = set()
        self._submitted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def register(self, counters: CounterRegistry) -> None:
        """Register how many proposals were refused."""
        name = MetricName("kafka.server", "ReplicaManager", "FailedIsrUpdatesPerSec")
        counters.add(name, self._refused)

    def start(self) -> None:
        """Begin to ask, in a task."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="ISR changes")

    async def stop(self) -> None:
        """Return once nothing is being asked."""
        tasks = [task for task in (self._task, *self._preparing) if task is not None]
        self._task = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def propose(self, partition: Partition, isr: tuple[int, ...]) -> None:
        """Ask for an ISR, which the partition's state already holds as pending."""
        from kbroker.replication.partitions.isr_events import isr_change  # few brokers need it

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
            change=isr_change(
                partition.topic_partition,
                state,
                isr,
                leader_end_offset=partition.log_end_offset,
                lag_time_max_ms=partition.lag_time_max_ms,
            ),
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
        except Exception as error:  # the tree is out of reach, for one; the answer will come
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
        """Act on an answer; False if the proposal has to be made again."""
        if not proposal.is_alive or answer in _SUPERSEDED:
            return True
        partition = proposal.partition
        if answer in _REFUSED:
            self._refused.value += 1
            partition.isr_refused()
            return True
        if not isinstance(answer, LeaderAndIsr):
            return False
        wanted = proposal.wanted
        if answer.leader_epoch != wanted.leader_epoch:
            return answer.leader_epoch > wanted.leader_epoch  # a later leader's: its order comes
        if answer.partition_epoch < wanted.partition_epoch:
            return False  # from a replaced controller
        if answer.isr != partition.state.isr:
            self._note(replace(proposal.change, isr=answer.isr))
        self._settle(partition.topic_partition, answer.isr, answer.partition_epoch)
        return True
