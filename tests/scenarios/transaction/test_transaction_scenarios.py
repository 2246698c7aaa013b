"""Runs the transcripts in this folder: what producers, their coordinator and the leaders of
partitions say to each other, what they write, and what readers see of it.

A producer is `1000/0`: its id and its epoch. Broker 1 leads t-0, which broker 2 follows; broker 2
leads t-1. A coordinator is named by the leader epoch of its log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

import pytest

from kbroker.coordinator.transaction.producer import NO_PRODUCER, Producer
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from tests.fakes.clusters.transaction_cluster import Client, TransactionCluster
from tests.scenarios.transcript import check, played, transcripts


@pytest.mark.parametrize(**transcripts(__file__))
def test_transcript_goes_as_written(path: Path) -> None:
    check(path, play)


async def play(text: str) -> str:
    world = Transactions()
    try:
        return await played(text, world.run)
    finally:
        await world.cluster.stop()


class Transactions:
    """The commands of the transcripts."""

    def __init__(self) -> None:
        self.cluster = TransactionCluster()
        self.clients: dict[str, Client] = {}

    async def run(self, line: str) -> list[str]:
        told = self.cluster.told
        told.clear()
        name, *words = line.split()
        fields = dict(word.split("=", 1) for word in words if "=" in word)
        words = [word for word in words if "=" not in word]
        await getattr(self, f"on_{name.replace('-', '_')}")(*words, **fields)
        await self.cluster.settle()
        return [f"  {each}" for each in counted(told)]

    # ---- producers

    async def on_init(self, name: str, transactional_id: str, timeout_ms: str = "60000") -> None:
        """A producer process starts."""
        client = self.clients[name] = Client(name, transactional_id)
        await self._init(client, int(timeout_ms))

    async def on_bump(self, name: str) -> None:
        """A producer says who it is, and asks for its next epoch (KIP-360)."""
        await self._init(self.clients[name], 60_000)

    async def _init(self, client: Client, timeout_ms: int) -> None:
        asking = self.cluster.coordinator.init(
            client.transactional_id, client.producer or NO_PRODUCER, timeout_ms
        )
        await self.cluster.answer(client, asking)

    async def on_add(self, name: str, *partitions: str) -> None:
        client = self.clients[name]
        asking = self.cluster.coordinator.coordinator.add_partitions(
            client.transactional_id, client.producer, [_partition(each) for each in partitions]
        )
        await self.cluster.answer(client, asking)

    async def on_send(self, name: str, partition: str, value: str) -> None:
        client = self.clients[name]
        await self.cluster.answer(
            client, self.cluster.produce(client, _partition(partition), value)
        )

    async def on_send_offsets(self, name: str, group: str, **offsets: str) -> None:
        client = self.clients[name]
        given = {_partition(each): int(offset) for each, offset in offsets.items()}
        await self.cluster.answer(client, self.cluster.send_offsets(client, group, given))

    async def on_commit(self, name: str) -> None:
        await self._end(self.clients[name], self.clients[name].producer, is_commit=True)

    async def on_abort(self, name: str) -> None:
        await self._end(self.clients[name], self.clients[name].producer, is_commit=False)

    async def on_commit_again(self, name: str) -> None:
        """The answer was lost: the producer asks as who it was then."""
        await self._end(self.clients[name], self.clients[name].before, is_commit=True)

    async def _end(self, client: Client, producer: Producer, *, is_commit: bool) -> None:
        await self.cluster.answer(client, self.cluster.end(client, producer, is_commit=is_commit))

    # ---- readers

    async def on_read(self, *partitions: str) -> None:
        """As a consumer that reads what is committed."""
        self.cluster.told += [self.cluster.read_committed(_partition(each)) for each in partitions]

    async def on_log(self, partition: str) -> None:
        self.cluster.told += self.cluster.log_lines(_partition(partition))

    async def on_fetch_offsets(self, group: str, partition: str) -> None:
        """As a consumer that asks for stable offsets."""
        offsets = self.cluster.groups.groups.offsets.fetch(group, (_partition(partition),), True)
        for name, found in offsets:
            shown = found.offset if found.error is ErrorCode.NONE else found.error.name
            self.cluster.told.append(f"{group} has {name}: {shown}")

    # ---- brokers

    async def on_wait(self, milliseconds: str) -> None:
        await self.cluster.settle(int(milliseconds) / 1000)

    async def on_kill(self, broker: str) -> None:
        await self.cluster.brokers.stop(int(broker))

    async def on_start(self, broker: str) -> None:
        self.cluster.brokers.start(int(broker))

    async def on_lead(self, partition: str, broker: str, epoch: str) -> None:
        """The controller elects a leader."""
        self.cluster.lead(_partition(partition), int(broker), int(epoch))

    async def on_protocol(self, level: str) -> None:
        """The transaction.version that the cluster has settled on."""
        self.cluster.coordinator.level = int(level)

    async def on_replicas(self, what: str) -> None:
        """Those of __transaction_state: they `fall-behind` and `catch-up`; if they do that after
        the coordinator has waited long enough, they are `too-late` first.
        """
        replicas = self.cluster.coordinator.replicas
        replicas.holds = what == "fall-behind"
        if what == "too-late":
            replicas.release(ErrorCode.REQUEST_TIMED_OUT)
        elif what == "catch-up":
            replicas.release()
            self.cluster.coordinator.log().confirm()

    async def on_move_coordinator(self) -> None:
        self.cluster.replace_coordinator(knows_it=True)

    async def on_replace_coordinator(self) -> None:
        """The old one does not know it yet: what it still has to do, it does."""
        self.cluster.replace_coordinator(knows_it=False)


def counted(lines: Iterable[str]) -> Iterator[str]:
    """Show a line that comes several times in a row once."""
    for line, same in groupby(lines):
        times = sum(1 for _ in same)
        yield line if times == 1 else f"{line} ({times} times)"


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))
