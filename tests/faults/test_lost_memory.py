"""The last replica in sync loses its machine, and what was in memory: brokers of the product over
simulated disks, network and tree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from kbroker.controller.event_handlers.doubtful_elections import WAIT_S
from kbroker.model import LeaderAndIsr, TopicPartition
from tests.fakes.clusters.replication_cluster import batch
from tests.fakes.disks.power_disk import PowerDisk
from tests.fakes.running.virtual_loop import nobody
from tests.faults.cluster_process import BrokerProcess, append
from tests.faults.cluster_simulation import Outcome, seeded_ids
from tests.faults.replication_checks import records_in
from tests.faults.replication_simulation import ReplicationHistory

PARTITION = TopicPartition("a", 0)
RECORDS = 30
SEED = next(n for n in range(99) if Random(f"replication/{n}").choice((3, 3, 3, 4, 5)) == 3)


class Story(ReplicationHistory):
    """Three brokers with one topic; its records are in memory only. Then `plot` tells on."""

    def __init__(self, plot: Callable[[Story], Coroutine[Any, Any, None]]) -> None:
        super().__init__(SEED, 0)
        self.plot = plot

    def _settings(self, random: Random) -> dict[str, str]:
        return super()._settings(random) | {
            "kbroker.flush": "never",
            "min.insync.replicas": "1",
            "auto.leader.rebalance.enable": "true",
        }

    async def _live(self) -> None:
        self._build()
        assert len(self.disks) == 3
        for broker_id in self.disks:
            self._start(broker_id)
        await self.until(lambda: len(self._running()) == 3)
        assert await self.admin.create("a", 1, {})
        await self.until(lambda: self.leader() is not None)
        leader = self.leader()
        assert leader is not None
        for number in range(RECORDS):
            data = batch(b"%d" % number, timestamp=self.clock.now_ms())
            assert await append(leader, PARTITION, data) == number
        await asyncio.sleep(2.0)  # followers hear of the last high watermark
        await self.plot(self)

    async def until(self, is_so: Callable[[], bool], within_s: float = 60.0) -> None:
        """Wait in virtual time."""
        end = self.loop.time() + within_s
        while not is_so():
            assert self.loop.time() < end, self.state()
            await asyncio.sleep(0.1)

    def state(self) -> LeaderAndIsr:
        state = self.state_of(PARTITION)
        assert state is not None
        return state

    def runs(self, broker_id: int) -> bool:
        return broker_id in [process.broker_id for process in self._running()]

    def leader(self) -> BrokerProcess | None:
        """The process that leads by the tree and by its own word."""
        state = self.state_of(PARTITION)
        process = self.processes.get(state.leader) if state is not None else None
        if process is None or not process.is_serving:
            return None
        hosted = process.replicas.hosted.find(PARTITION)
        return process if hosted is not None and hosted.is_leader else None

    def kill(self, broker_id: int) -> None:
        """The process ends; the machine goes on."""
        self.faults.end(self.processes[broker_id])

    def power_off(self, broker_id: int) -> None:
        """The machine ends: nothing is left that was not synced."""
        image = self.disks[broker_id].image(self.random, "lost")
        assert isinstance(image, PowerDisk)
        self.kill(broker_id)
        self.disks[broker_id] = image
        self.trouble.boots[broker_id] += 1

    def start(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.loop.call_soon(self._start, broker_id, context=nobody())

    async def leave_one(self) -> tuple[int, list[int]]:
        """Kill brokers until one is in sync; returns it, and the others."""
        last = self.state().leader
        others = [broker_id for broker_id in self.disks if broker_id != last]
        for broker_id in others:
            self.kill(broker_id)
        await self.until(lambda: self.state().isr == (last,))
        return last, others

    async def all_back(self) -> list[bytes]:
        """Wait for the whole ISR; the records, which are the same on all brokers."""
        await self.until(lambda: len(self.state().isr) == 3 and self.leader() is not None)
        await asyncio.sleep(1.0)
        logs = [p.replicas.hosted.get(PARTITION).log for p in self._running()]
        found = [list(records_in(log, log.log_end_offset)) for log in logs]
        assert found[0] == found[1] == found[2]
        return [value for _, value in found[0]]


def tell(plot: Callable[[Story], Coroutine[Any, Any, None]]) -> None:
    """Live a story to its end."""
    story = Story(plot)
    with seeded_ids(Random(f"ids/{SEED}")):
        story.run(Outcome())
    assert story.model.violations == []


ALL = [b"%d" % number for number in range(RECORDS)]


def test_another_replica_leads_where_the_last_in_sync_has_lost_records() -> None:
    async def plot(story: Story) -> None:
        last, others = await story.leave_one()
        story.power_off(last)
        await asyncio.sleep(20.0)
        story.start(last)
        await asyncio.sleep(10.0)
        assert story.leader() is None, "it must wait for those who may have more"
        story.start(*others)

        assert await story.all_back() == ALL
        assert story.state().leader in others

    tell(plot)


def test_all_machines_end_and_the_longest_log_leads() -> None:
    async def plot(story: Story) -> None:
        leader = story.state().leader
        longest = next(broker_id for broker_id in story.disks if broker_id != leader)
        log = story.processes[longest].replicas.hosted.get(PARTITION).log
        log.flush(log.log_end_offset)
        for broker_id in story.disks:
            story.power_off(broker_id)
        await asyncio.sleep(20.0)
        story.start(*story.disks)

        assert await story.all_back() == ALL
        assert story.state().leader == longest

    tell(plot)


def test_one_that_nobody_else_comes_to_help_leads_in_the_end() -> None:
    async def plot(story: Story) -> None:
        last, _ = await story.leave_one()
        story.power_off(last)
        await asyncio.sleep(20.0)
        story.start(last)
        await story.until(lambda: story.runs(last))
        began_s = story.loop.time()
        await story.until(lambda: story.leader() is not None)

        assert WAIT_S - 1.0 <= story.loop.time() - began_s <= WAIT_S + 5.0

    tell(plot)


def test_one_whose_machine_went_on_leads_at_once_with_all_it_had() -> None:
    async def plot(story: Story) -> None:
        last, others = await story.leave_one()
        story.kill(last)
        await asyncio.sleep(20.0)
        story.start(last)
        await story.until(lambda: story.runs(last))
        await story.until(lambda: story.leader() is not None, within_s=1.0)
        story.start(*others)

        assert await story.all_back() == ALL
        assert story.state().leader == last

    tell(plot)
