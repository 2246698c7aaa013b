"""Runs the transcripts in this folder: followers copy a leader's log, and are cut where theirs parts
from it.

Brokers 1, 2 and 3 hold t-0; the transcript is their controller and their network. Each command is
followed by the brokers whose log, epochs or high watermark have changed: `0@0 1@2` means that epoch
0 begins at offset 0 and epoch 1 at offset 2.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.clusters.copying_cluster import CopyingBroker, CopyingCluster, T
from tests.scenarios.transcript import check, played, transcripts

Brokers = tuple[int, ...]


@pytest.mark.parametrize(**transcripts(__file__))
def test_transcript_goes_as_written(path: Path) -> None:
    check(path, play)


async def play(text: str) -> str:
    async with CopyingCluster(1, 2, 3) as cluster:
        return await played(text, Following(cluster).run)


class Following:
    """The commands of the transcripts."""

    def __init__(self, cluster: CopyingCluster) -> None:
        self.cluster = cluster
        self.shown: dict[int, str] = {}
        self.stopped: list[str] = []

    async def run(self, line: str) -> list[str]:
        name, *words = line.split()
        fields = dict(word.split("=", 1) for word in words if "=" in word)
        words = [word for word in words if "=" not in word]
        self.stopped.clear()
        await getattr(self, f"on_{name.replace('-', '_')}")(*words, **fields)
        now = {number: _shown(broker) for number, broker in sorted(self.cluster.brokers.items())}
        news = [f"  broker {n}: {text}" for n, text in now.items() if self.shown.get(n) != text]
        self.shown |= now
        return [*self.stopped, *news]

    async def on_lead(self, broker: str, epoch: str, isr: str = "1,2,3", to: str = "") -> None:
        """The controller makes a broker leader, and tells all brokers or only some."""
        told = _numbers(to) if to else None
        self.cluster.order(int(broker), int(epoch), isr=_numbers(isr), to=told)
        await self.cluster.settle()

    async def on_hear(self, broker: str) -> None:
        """A broker hears what the controller ordered last."""
        self.cluster.tell(int(broker))
        await self.cluster.settle()

    async def on_append(self, broker: str, *values: str) -> None:
        """By whoever believes that it leads."""
        for value in values:
            self.cluster[int(broker)].append(value.encode())
        await self.cluster.settle()

    async def on_append_and_stop(self, broker: str, value: str, follower: str) -> None:
        """A follower stops as soon as the leader knows that the others have a record."""
        leader = self.cluster[int(broker)]
        leader.append(value.encode())
        await self.cluster.until(lambda: leader.log().high_watermark == leader.log().log_end_offset)
        self.stopped.append(f"  broker {follower} stops: {_shown(self.cluster[int(follower)])}")
        await self.cluster.stop(int(follower))

    async def on_cut_off(self, broker: str) -> None:
        """Nobody reaches it, and it reaches nobody."""
        number = int(broker)
        others = [each for each in self.cluster.disks if each != number]
        self.cluster.cut_links |= {(number, each) for each in others}
        self.cluster.cut_links |= {(each, number) for each in others}

    async def on_reconnect(self) -> None:
        self.cluster.cut_links.clear()
        await self.cluster.settle()

    async def on_stop(self, broker: str) -> None:
        await self.cluster.stop(int(broker))

    async def on_start(self, broker: str) -> None:
        self.cluster.start(int(broker))
        await self.on_hear(broker)


def _numbers(text: str) -> Brokers:
    return tuple(int(each) for each in text.split(","))


def _shown(broker: CopyingBroker) -> str:
    if broker.replicas.hosted.find(T) is None:
        return "no replica yet"
    state, log = broker.partition().state, broker.log()
    role = "leads" if state.is_leader else f"follows {state.leader}"
    values = " ".join((value or b"").decode() for value in broker.values())
    epochs = " ".join(f"{epoch}@{start}" for epoch, start in broker.epochs())
    return (
        f"{role}, epoch {state.leader_epoch}: [{values}]"
        f" epochs {epochs or 'none'}, high watermark {log.high_watermark}"
    )
