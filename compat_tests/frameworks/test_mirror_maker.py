"""MirrorMaker 2 between two brokers: records, settings of topics and offsets of groups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from compat_tests.clients.every_client import create_topic
from compat_tests.conftest import BrokerProcess
from compat_tests.frameworks.java_worker import KAFKA_VERSIONS, connect_command, properties_file
from compat_tests.frameworks.lines import TopicReader, lines, write
from compat_tests.frameworks.story import TEST_TIMEOUT_S, RunWorker
from compat_tests.running.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.timeout(TEST_TIMEOUT_S)]


@pytest.mark.parametrize("version", KAFKA_VERSIONS)
def test_mirror_maker_copies_topics_and_offsets_of_groups(
    broker: BrokerProcess,
    own_broker: Callable[..., BrokerProcess],
    topic: str,
    run_worker: RunWorker,
    tmp_path: Path,
    version: str,
) -> None:
    origin, path = own_broker(), tmp_path / "mirror.properties"
    seconds = (
        "emit.checkpoints",
        "sync.group.offsets",
        "refresh.topics",
        "refresh.groups",
        "sync.topic.configs",
    )
    settings = {
        "clusters": "east, west",
        "east.bootstrap.servers": origin.bootstrap,
        "west.bootstrap.servers": broker.bootstrap,
        "east->west.enabled": "true",
        "east->west.topics": topic,
        "east->west.groups": topic,
        "east->west.sync.group.offsets.enabled": "true",
        "east->west.offset.lag.max": 0,  # every offset is known in both clusters
        "replication.factor": 1,
        **{f"{what}.topic.replication.factor": 1 for what in ("checkpoints", "offset-syncs", "heartbeats")},
        **{f"{what}.storage.replication.factor": 1 for what in ("config", "offset", "status")},
        **{f"{what}.interval.seconds": 1 for what in seconds},
        "offset.flush.interval.ms": 300,
        "plugin.discovery": "service_load",
    }  # fmt: skip
    create_topic(origin.bootstrap, topic, 3)
    write(origin.bootstrap, topic, lines(0, 100))
    end = commit_all(origin.bootstrap, topic, topic)
    reader = TopicReader(broker.bootstrap, f"east.{topic}")
    command = connect_command(version, "mirror.MirrorMaker", properties_file(path, settings))

    worker = run_worker(command)
    reader.until(lines(0, 100))
    worker.stop()
    write(origin.bootstrap, topic, lines(100, 100))
    worker.start()
    seen = reader.until(lines(0, 200))

    until(
        lambda: committed(broker.bootstrap, topic) == {f"east.{topic}": end}, "offsets are copied"
    )
    worker.stop()
    assert set(seen.values()) == {1}
    assert origin.log_text() == ""
    reader.close()


def commit_all(bootstrap: str, topic: str, group: str) -> int:
    """Commit the end of partition 0, as a group that has read it; that offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), 10)
    consumer.commit(offsets=[TopicPartition(topic, 0, end)], asynchronous=False)
    consumer.close()
    return end


def committed(bootstrap: str, group: str) -> dict[str, int]:
    """Offsets of a group by topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    told = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(
        10
    )
    return {each.topic: each.offset for each in told.topic_partitions if each.offset >= 0}
