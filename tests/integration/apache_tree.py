"""The ZooKeeper tree that belongs to a data directory, so that Apache Kafka in ZooKeeper mode opens
it as its own: cluster id, topics with their ids and settings, leaders and epochs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from kazoo.client import KazooClient

from kbroker.errors import KafkaError
from kbroker.log.disk.checkpoint import (
    read_leader_epochs,
    read_meta_properties,
    read_partition_metadata,
)
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.disk.format import parse_directory_name
from kbroker.model import LeaderAndIsr, ReplicaAssignment, TopicPartition
from kbroker.record.legacy_record import read_any_header
from kbroker.zk import zk_paths
from kbroker.zk.zk_paths import ProducerIdBlock, TopicAssignment

CONTROLLER_EPOCH = 1

Overrides = Mapping[str, Mapping[str, str]]


def write_tree(connect: str, root: Path, overrides: Overrides | None = None) -> None:
    """Write the nodes for the partitions of data directory `root` at `connect` (address and chroot,
    which is made); `overrides` are settings by topic.
    """
    files = RealFileSystem()
    meta = read_meta_properties(files, str(root))
    assert meta is not None
    assert meta.cluster_id is not None
    assert meta.broker_id is not None
    with _client(connect) as client:
        _create(client, zk_paths.CLUSTER_ID, zk_paths.encode_cluster_id(meta.cluster_id))
        _create(client, zk_paths.CONTROLLER_EPOCH, b"%d" % CONTROLLER_EPOCH)
        block = ProducerIdBlock(broker_id=meta.broker_id, first_id=0, last_id=999)
        _create(client, zk_paths.PRODUCER_ID_BLOCK, zk_paths.encode_producer_id_block(block))
        for topic, partitions in partitions_by_topic(root).items():
            held = ReplicaAssignment(replicas=(meta.broker_id,))
            first = root / f"{topic}-{partitions[0]}"
            topic_id = read_partition_metadata(files, str(first))
            assert topic_id is not None
            assignment = TopicAssignment(
                topic_id=topic_id, partitions=dict.fromkeys(partitions, held)
            )
            settings = (overrides or {}).get(topic, {})
            path = zk_paths.config_path(zk_paths.TOPIC_CONFIGS, topic)
            _create(client, path, zk_paths.encode_config(settings))
            _create(client, zk_paths.topic_path(topic), zk_paths.encode_topic(assignment))
            for partition in partitions:
                _create(
                    client,
                    zk_paths.partition_state_path(topic, partition),
                    zk_paths.encode_partition_state(
                        LeaderAndIsr(
                            leader=meta.broker_id,
                            leader_epoch=latest_epoch(root / f"{topic}-{partition}"),
                            isr=(meta.broker_id,),
                            partition_epoch=0,
                        ),
                        CONTROLLER_EPOCH,
                    ),
                )


def partitions_by_topic(root: Path) -> dict[str, list[int]]:
    """Which partitions a data directory holds."""
    found: dict[str, list[int]] = {}
    for path in sorted(root.iterdir()):
        topic_partition: TopicPartition | None = parse_directory_name(path.name)
        if path.is_dir() and topic_partition and topic_partition.topic != "__cluster_metadata":
            found.setdefault(topic_partition.topic, []).append(topic_partition.partition)
    return {topic: sorted(partitions) for topic, partitions in found.items()}


def latest_epoch(partition: Path) -> int:
    """The newest leader epoch that a partition or its records know; 0 for none."""
    entries = read_leader_epochs(RealFileSystem(), str(partition))
    newest = entries[-1].epoch if entries else 0
    for path in partition.glob("*.log"):
        data = path.read_bytes()
        position = 0
        with suppress(KafkaError):  # the end, or a torn tail
            while True:
                header = read_any_header(data, position)
                newest = max(newest, header.partition_leader_epoch)
                position += header.size_bytes
    return newest


@contextmanager
def _client(connect: str) -> Iterator[KazooClient]:
    address, slash, chroot = connect.partition("/")
    client = KazooClient(hosts=address)
    client.start(timeout=20)
    try:
        if slash:
            client.ensure_path(chroot)
            client.chroot = f"/{chroot}"
        yield client
    finally:
        client.stop()
        client.close()


def _create(client: KazooClient, path: str, data: bytes | None) -> None:
    if client.exists(path):
        client.set(path, data or b"")
    else:
        client.create(path, data or b"", makepath=True)
