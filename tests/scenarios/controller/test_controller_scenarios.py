"""Runs the transcripts in this folder: commands to a cluster of fake brokers, and what its controller
did.

Each command is followed by what the brokers were told (sorted, as brokers work at the same time) and
by the partition states that changed in the tree.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from kbroker.controller.state_machines.requested_elections import ElectionType, ElectLeaders
from kbroker.model import EndPoint, ReplicaAssignment, TopicPartition
from kbroker.zk import zk_paths
from kbroker.zk.nodes.zk_notifications import ZkNotifications
from kbroker.zk.zk_paths import TopicAssignment
from tests.fakes.clusters.controller_cluster import ControllerCluster
from tests.scenarios.transcript import check, played, transcripts


@pytest.mark.parametrize(**transcripts(__file__))
def test_transcript(path: Path) -> None:
    check(path, play)


async def play(text: str) -> str:
    cluster = ControllerCluster()
    try:
        return await played(text, partial(do, cluster))
    finally:
        await cluster.stop()


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


async def bounce(cluster: ControllerCluster, broker_id: str) -> None:
    """The broker comes back before anybody has read that it had gone."""
    broker = cluster.brokers[int(broker_id)]
    await broker.session.delete(zk_paths.broker_path(broker.broker_id))
    await broker.register()


async def move(cluster: ControllerCluster, broker_id: str, host: str) -> None:
    """The broker announces another address, in the same registration."""
    broker = cluster.brokers[int(broker_id)]
    end_points = (EndPoint(listener_name="PLAINTEXT", host=host, port=9092),)
    broker.registration = replace(broker.registration, end_points=end_points)
    data = zk_paths.encode_broker(broker.registration, cluster.clock.now_ms())
    await broker.session.set(zk_paths.broker_path(broker.broker_id), data)


async def shut_down(cluster: ControllerCluster, broker_id: str) -> None:
    cluster.told += [
        f"still led: {partition}"
        for partition in await cluster.controller.controller.controlled_shutdown(int(broker_id))
    ]


async def fail_replicas(cluster: ControllerCluster, broker_id: str, *partitions: str) -> None:
    """A data directory of the broker fails; with no partition it works again."""
    broker = cluster.brokers[int(broker_id)]
    broker.failed_replicas = {_partition(text) for text in partitions}
    await ZkNotifications(broker.zk).propagate_log_dir_event(broker.broker_id)


async def notify_isr(cluster: ControllerCluster, *partitions: str) -> None:
    notifications = ZkNotifications(cluster.controller.zk)
    await notifications.propagate_isr_changes(map(_partition, partitions))


async def remove(cluster: ControllerCluster, path: str) -> None:
    """By hand, with all that is below."""
    session = cluster.controller.session
    for name in await session.children(path):
        await remove(cluster, f"{path}/{name}")
    await session.delete(path)


async def wish(cluster: ControllerCluster, topic: str) -> None:
    await cluster.controller.zk.create_delete_topics([topic])


async def expire(cluster: ControllerCluster, broker_id: str) -> None:
    """The broker's session ends, and it opens another."""
    session = cluster.brokers[int(broker_id)].session
    session.expire()
    await cluster.settle()
    session.renew()


async def show(cluster: ControllerCluster) -> None:
    """Who is controller, what each broker knows, and what waits in the tree for the controller."""
    session = cluster.controller.session
    cluster.told.append(
        f"controller {cluster.controller.broker_id} epoch {cluster.controller.controller.epoch}"
    )
    for broker in cluster.brokers.values():
        hosts = [f"{b.broker_id}@{b.end_points[0].host}" for b in broker.metadata.alive_brokers()]
        topics = " ".join(sorted(broker.metadata.topics()))
        cluster.told.append(f"broker {broker.broker_id} knows {' '.join(hosts)} topics {topics}")
    for root in ("/admin/delete_topics", "/log_dir_event_notification", "/isr_change_notification"):
        cluster.told += [f"{root}/{name}" for name in await session.children(root)]


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


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
    context = cluster.controller.controller.context
    assert context is not None
    everything = ElectLeaders(frozenset(context.leadership), ElectionType.PREFERRED)
    await cluster.controller.controller.ask(everything)


async def join_isr(cluster: ControllerCluster, name: str, isr: str) -> None:
    """Act as a leader whose follower has caught up: straight into the controller's picture and the
    tree.
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
    "bounce": bounce,
    "move": move,
    "expire": expire,
    "shut-down": shut_down,
    "fail-replicas": fail_replicas,
    "notify-isr": notify_isr,
    "remove": remove,
    "wish-delete": wish,
    "show": show,
    "create": create,
    "grow": grow,
    "delete": delete,
    "prefer": prefer,
    "isr": join_isr,
}
