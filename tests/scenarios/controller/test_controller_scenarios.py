"""Runs the transcripts beside this file: commands to a cluster of fake brokers, and what its
controller did.

A transcript has blocks of `> command` lines, each followed by what the brokers were told (sorted,
as brokers work at the same time) and by the partition states that changed in the tree.
KBROKER_REWRITE=1 in the environment writes the transcripts anew; the difference is to be reviewed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import pytest

from kbroker.model import ReplicaAssignment
from kbroker.zk import zk_paths
from kbroker.zk.zk_paths import TopicAssignment
from tests.fakes.controller_cluster import ControllerCluster

HERE = Path(__file__).parent


@pytest.mark.parametrize("path", sorted(HERE.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    text = path.read_text()
    played = asyncio.run(play(text))
    if os.environ.get("KBROKER_REWRITE"):
        path.write_text(played)
    assert played == text


async def play(text: str) -> str:
    cluster = ControllerCluster()
    lines: list[str] = []
    try:
        for line in text.splitlines():
            if line.startswith("#"):
                lines.append(line)
            elif line.startswith("> "):
                lines += ["", line, *await do(cluster, line[2:])] if lines else [line]
    finally:
        await cluster.stop()
    return "\n".join(lines) + "\n"


async def do(cluster: ControllerCluster, command: str) -> list[str]:
    """Carry out one command, and report what came of it."""
    before = cluster.state()
    cluster.told.clear()
    verb, *words = command.split()
    await COMMANDS[verb](cluster, *words)
    await cluster.settle()
    after = cluster.state()
    gone = {state.split(" ")[0] for state in before} - {state.split(" ")[0] for state in after}
    changed = [f"tree: {state}" for state in after if state not in before]
    removed = [f"tree: {name} removed" for name in sorted(gone)]
    return [*sorted(cluster.told), *changed, *removed]


async def start(cluster: ControllerCluster, *ids: str) -> None:
    for broker_id in ids:
        await cluster.start(int(broker_id))


async def kill(cluster: ControllerCluster, broker_id: str) -> None:
    cluster.brokers[int(broker_id)].kill()


async def shut_down(cluster: ControllerCluster, broker_id: str) -> None:
    await cluster.controller.controller.controlled_shutdown(int(broker_id))


async def create(cluster: ControllerCluster, name: str, *replicas: str) -> None:
    """Straight into the tree, as a tool does it: the API refuses more than one replica for now."""
    assignment = TopicAssignment(
        topic_id=uuid4(),
        partitions={
            index: ReplicaAssignment(replicas=tuple(int(b) for b in text.split(",")))
            for index, text in enumerate(replicas)
        },
    )
    session = cluster.controller.session
    await session.create(zk_paths.topic_path(name), zk_paths.encode_topic(assignment))


async def grow(cluster: ControllerCluster, name: str, *replicas: str) -> None:
    session, path = cluster.controller.session, zk_paths.topic_path(name)
    data, _ = await session.get(path)
    old = zk_paths.decode_topic(name, data)
    partitions = dict(old.partitions)
    for text in replicas:
        added = ReplicaAssignment(replicas=tuple(int(b) for b in text.split(",")))
        partitions[len(partitions)] = added
    grown = TopicAssignment(topic_id=old.topic_id, partitions=partitions)
    await session.set(path, zk_paths.encode_topic(grown))


async def delete(cluster: ControllerCluster, name: str) -> None:
    await cluster.controller.topics.delete_topics([name], 1000)


async def prefer(cluster: ControllerCluster) -> None:
    await cluster.controller.controller.elect_preferred_leaders(None)


async def join_isr(cluster: ControllerCluster, name: str, isr: str) -> None:
    """What a leader does when a follower has caught up:
    here straight into the controller's picture and the tree.
    """
    topic, _, partition = name.rpartition("-")
    path = f"/brokers/topics/{topic}/partitions/{partition}/state"
    data, _ = await cluster.controller.session.get(path)
    assert data is not None
    head = data.decode().partition('"isr"')[0]
    await cluster.controller.session.set(path, f'{head}"isr":[{isr}]}}'.encode())


COMMANDS: dict[str, Callable[..., Awaitable[None]]] = {
    "start": start,
    "kill": kill,
    "shut-down": shut_down,
    "create": create,
    "grow": grow,
    "delete": delete,
    "prefer": prefer,
    "isr": join_isr,
}
