"""Runs the transcripts in this folder: who is in sync with a leader, who decides that, and what it
means for what is appended.

Brokers 0, 1 and 2 hold t-0, broker 1 is its preferred leader, and broker 0 is controller. Each
command is followed by what brokers asked each other and what the controller ordered, by what is in
the tree now, and by what the leader knows.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kbroker.errors import ErrorCode
from kbroker.model import ReplicaAssignment, TopicPartition
from kbroker.zk.zk_paths import TopicAssignment
from tests.fakes.clusters.forwarding_cluster import afterwards, cut
from tests.fakes.clusters.replicating_cluster import ReplicatingBroker, ReplicatingCluster
from tests.fakes.trees.topic_nodes import create_topic
from tests.scenarios.transcript import check, played, transcripts

T = TopicPartition("t", 0)
REPLICAS = (1, 2, 0)
LAG_S = 31  # replica.lag.time.max.ms, and a second
SETTLED_S = 0.01


@pytest.mark.parametrize(**transcripts(__file__))
def test_transcript_goes_as_written(path: Path) -> None:
    check(path, play)


async def play(text: str) -> str:
    world = InSync()
    try:
        return await played(text, world.run)
    finally:
        await world.stop()


class InSync:
    """The commands of the transcripts."""

    def __init__(self) -> None:
        self.cluster = ReplicatingCluster()
        self.told: list[str] = []
        self.waiting: set[asyncio.Task[None]] = set()
        self.controller_goes_on = asyncio.Event()
        self.known = ""
        self.tree: list[str] = []

    async def stop(self) -> None:
        self.controller_goes_on.set()
        for task in self.waiting:
            task.cancel()
        await asyncio.gather(*self.waiting, return_exceptions=True)
        await self.cluster.stop()

    async def run(self, line: str) -> list[str]:
        cluster = self.cluster
        self.told.clear()
        cluster.told.clear()
        cluster.asked.clear()
        name, *words = line.split()
        await getattr(self, f"on_{name.replace('-', '_')}")(*words)
        await self._settle()
        asked = [f"broker {by} -> broker {to}: {what}" for by, to, what in cluster.asked]
        orders = sorted(each for each in cluster.told if "LeaderAndIsr" in each)
        tree = [f"tree: {each}" for each in cluster.state() if each not in self.tree]
        self.tree = cluster.state()
        return [f"  {each}" for each in (*asked, *orders, *tree, *self.told, *self._news())]

    async def _settle(self) -> None:
        await asyncio.sleep(SETTLED_S)
        await self.cluster.settle()

    def _news(self) -> list[str]:
        """Show what the leader knows, if that is new."""
        leader = self._find_leader()
        known = "nobody leads" if leader is None else _shown(leader)
        news, self.known = [known] if known != self.known else [], known
        return news

    def _find_leader(self) -> ReplicatingBroker | None:
        for broker_id in sorted(self.cluster.brokers):
            broker = self.cluster.broker(broker_id)
            partition = broker.replicas.hosted.find(T)
            if partition is not None and partition.is_leader:
                return broker
        return None

    @property
    def leader(self) -> ReplicatingBroker:
        leader = self._find_leader()
        assert leader is not None, "nobody leads"
        return leader

    # ---- brokers

    async def on_start(self, *what: str) -> None:
        """The cluster with its topic, or one broker; leaders may `write-isrs` themselves."""
        if what and what[0].isdigit():
            await self.cluster.start(int(what[0]))
            return
        self.cluster.leaders_write_isrs = what == ("write-isrs",)
        for broker_id in sorted(REPLICAS):
            await self.cluster.start(broker_id)
        topic = TopicAssignment(
            topic_id=UUID(int=7), partitions={0: ReplicaAssignment(replicas=REPLICAS)}
        )
        await create_topic(self.cluster.controller.zk, "t", topic)

    async def on_kill(self, broker_id: str) -> None:
        self.cluster.brokers[int(broker_id)].kill()

    async def on_min_insync_replicas(self, number: str) -> None:
        for broker_id in self.cluster.brokers:
            config: Any = self.cluster.broker(broker_id).partition(T).log.config
            config.min_insync_replicas = int(number)

    # ---- producers and followers

    async def on_append(self, acks: str) -> None:
        """One record, with acks `1` or `all`."""
        task = asyncio.ensure_future(self._append(-1 if acks == "all" else int(acks)))
        self.waiting.add(task)
        task.add_done_callback(self.waiting.discard)
        await self._settle()
        if not task.done():
            self.told.append("the producer waits")

    async def _append(self, acks: int) -> None:
        outcome = self.leader.append(T, acks, 600_000)
        (result,) = outcome if isinstance(outcome, list) else await outcome
        refused = result.error_code is not ErrorCode.NONE
        answer = result.error_code.name if refused else f"offset {result.base_offset}"
        self.told.append(f"the producer <- {answer}")

    async def on_fetch(self, broker_id: str, _from: str, offset: str) -> None:
        """A follower has all that is before an offset, and asks for more."""
        follower, leader = self.cluster.broker(int(broker_id)), self.leader
        log, end_offset = follower.partition(T).log, int(offset)
        log.batches = [each for each in leader.partition(T).log.batches if each[1] < end_offset]
        log.log_end_offset = end_offset
        leader.hear_fetch(T, end_offset, follower.broker_id, follower.broker_epoch)

    async def on_lag(self) -> None:
        """So much time passes that who lacks something lags; then the leader looks."""
        await asyncio.sleep(LAG_S)
        self.leader.replicas.maybe_shrink_isr()

    async def on_wait(self, seconds: str) -> None:
        await asyncio.sleep(int(seconds))

    # ---- the controller

    async def on_hold_controller(self) -> None:
        """Its answer to the next question takes as long as nobody lets it go on."""
        self.controller_goes_on.clear()
        self.cluster.faults.append(lambda _request: self.controller_goes_on.wait())

    async def on_let_controller_go_on(self) -> None:
        self.controller_goes_on.set()

    async def on_lose_next_answer(self) -> None:
        """The controller does what it is asked, and the connection is cut."""
        self.cluster.faults.append(afterwards(cut))

    async def on_elect_uncleanly(self) -> None:
        """An operator sets unclean.leader.election.enable."""
        self.cluster.unclean_by_default = True
        self.cluster.controller.controller.enable_unclean_elections()


def _shown(leader: ReplicatingBroker) -> str:
    partition = leader.partition(T)
    state = partition.state
    pending = "" if state.pending_isr is None else f", asks for {list(state.pending_isr)}"
    return (
        f"leader {leader.broker_id}, epoch {state.leader_epoch}: isr {list(state.isr)}{pending},"
        f" end {partition.log_end_offset}, high watermark {partition.high_watermark}"
    )
