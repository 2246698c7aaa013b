"""DoubtfulElections: leaders for partitions whose in-sync replicas have all lost what was in memory
only.

Law: all replicas are asked how far their logs reach, and the furthest leads. Nobody leads before
all have answered, or were waited for: a replica that is yet to answer may have the records that the
others have lost. Whoever needs a leader at once can ask for an unclean election.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from kbroker.controller.event_handlers.state_changes import StateChanges
from kbroker.controller.state_machines.controller_context import Replica
from kbroker.controller.state_machines.events import Event
from kbroker.controller.state_machines.partition_leader_election import Elected
from kbroker.controller.state_machines.unseen_returns import most_advanced
from kbroker.log.partition.leader_epoch_cache import EpochEndOffset
from kbroker.model import TopicPartition

_log = logging.getLogger(__name__)

FIRST_LOOK_AFTER_S = 0.1
LOOK_AGAIN_AFTER_S = 0.5
WAIT_S = 30.0


class LookAtDoubts(Event):
    """Time to ask the replicas of partitions in doubt."""

    __slots__ = ()


class DoubtfulElections:
    """Holds these elections. Owned by the controller's queue."""

    def __init__(self, states: StateChanges, put: Callable[[Event], object]) -> None:
        self._states = states
        self._context = states.context
        self._put = put
        self._since_s: dict[TopicPartition, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Look soon, if there are partitions in doubt that nobody looks at yet."""
        if self._context.in_doubt and self._timer is None:
            self._look_after(FIRST_LOOK_AFTER_S)

    def stop(self) -> None:
        """Look no more until `watch` is called again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def on_look(self, _event: LookAtDoubts) -> None:
        """Give a leader to each partition that enough is known about."""
        self.stop()
        waiting = self._still_waiting()
        if not waiting:
            return
        ends = await self._log_ends(waiting)
        now_s = asyncio.get_running_loop().time()
        chosen = {
            partition: elected
            for partition in waiting
            if (elected := self._choose(partition, ends[partition], now_s)) is not None
        }
        self._context.in_doubt.difference_update(chosen)
        self._context.in_doubt.update(await self._states.lead(chosen))
        if self._context.in_doubt:
            self._look_after(LOOK_AGAIN_AFTER_S)

    def _choose(
        self, partition: TopicPartition, ends: Mapping[int, EpochEndOffset], now_s: float
    ) -> Elected | None:
        replicas = self._context.assignment(partition).replicas
        is_late = now_s - self._since_s[partition] >= WAIT_S
        if len(ends) < len(replicas) and not is_late:
            return None
        isr = self._context.leadership[partition].leader_and_isr.isr
        if ends.keys().isdisjoint(isr):  # only these can know what was committed
            leader = next(b for b in isr if self._is_online(partition, b))
            _log.warning("%s: %d leads, without saying where its log ends", partition, leader)
            return Elected(leader, (leader,))
        elected = most_advanced(replicas, isr, ends)
        told = ", ".join(f"{b}: {e.end_offset} of epoch {e.epoch}" for b, e in sorted(ends.items()))
        _log.warning("%s: %d leads; the logs end at %s", partition, elected.leader, told)
        return elected

    def _still_waiting(self) -> list[TopicPartition]:
        """Partitions without a leader that have a live in-sync replica; others are forgotten."""
        context = self._context
        context.in_doubt = {
            partition
            for partition in context.in_doubt.intersection(context.partitions_needing_leader())
            if any(
                self._is_online(partition, b)
                for b in context.leadership[partition].leader_and_isr.isr
            )
        }
        for partition in self._since_s.keys() - context.in_doubt:
            del self._since_s[partition]
        begun = sorted(context.in_doubt - self._since_s.keys())
        if begun:
            _log.warning(
                "all in sync have lost what their machines' memory held: asking up to %g s how far "
                "the logs of %d partitions reach: %.500s",
                WAIT_S,
                len(begun),
                begun,
            )
            now_s = asyncio.get_running_loop().time()
            self._since_s.update(dict.fromkeys(begun, now_s))
        return sorted(context.in_doubt)

    async def _log_ends(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, dict[int, EpochEndOffset]]:
        """Ends of the logs by partition and broker, as far as they are known."""
        context = self._context
        asked: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            for broker_id in context.assignment(partition).replicas:
                if self._is_online(partition, broker_id):
                    asked.setdefault(broker_id, []).append(partition)
        answers = await asyncio.gather(
            *(self._states.ask_log_ends(context.live_brokers[b], some) for b, some in asked.items())
        )
        ends: dict[TopicPartition, dict[int, EpochEndOffset]] = {p: {} for p in partitions}
        for broker_id, answer in zip(asked, answers, strict=True):
            for partition, end in answer.items():
                ends[partition][broker_id] = end
        return ends

    def _is_online(self, partition: TopicPartition, broker_id: int) -> bool:
        return self._context.is_replica_online(Replica(partition, broker_id))

    def _look_after(self, delay_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(delay_s, self._put, LookAtDoubts())
