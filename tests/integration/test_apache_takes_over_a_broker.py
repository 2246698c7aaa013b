"""Directories go to Apache Kafka 3.9.2 and back together with their trees: exported into ZooKeeper,
a tree makes Apache Kafka the next broker of the cluster; imported again, kbroker.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from compat_tests.conftest import BrokerProcess
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.apache_kafka import ZOOKEEPER_LINE, jars
from compat_tests.running.prerequisites import NotAvailableError
from compat_tests.running.shared_zookeeper import fresh_chroot
from kbroker.log.disk.checkpoint import read_meta_properties
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.model import TopicPartition
from tests.golden import golden_logs
from tests.integration.client_reads import read_committed_offsets, read_rows
from tests.integration.directory_writer import Rows

pytestmark = pytest.mark.java

PLAIN, TABLE = "plain", "table"
SETTINGS = {
    PLAIN: {"segment.bytes": "20000", "retention.ms": "86400000", "index.interval.bytes": "500"},
    TABLE: {"cleanup.policy": "compact", "compression.type": "zstd"},
}
PARTITIONS = {PLAIN: 3, TABLE: 1}
PLACES = [TopicPartition(topic, p) for topic, count in PARTITIONS.items() for p in range(count)]
THERE = TopicPartition("made-there", 0)
GROUP = "g"
RECORDS = 600
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMEOUT_S = 40


def use(bootstrap: str) -> None:
    """Topics with settings, records of all codecs, a committed offset."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(t, PARTITIONS[t], 1, config=config) for t, config in SETTINGS.items()]
    for created in admin.create_topics(topics).values():
        created.result(TIMEOUT_S)
    for codec in CODECS:
        write(bootstrap, codec)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    consumer.commit(offsets=[ClientPartition(PLAIN, p, 17) for p in range(3)], asynchronous=False)
    consumer.close()


def write(bootstrap: str, codec: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": codec,
            "batch.size": 2000,
        }
    )
    for number in range(RECORDS // len(CODECS)):
        for topic, partition in PLACES:
            value = f"{codec} {number} ".encode() * 10
            producer.produce(topic, value, b"%d" % number, partition, headers=[("h", b"v")])
    assert producer.flush(TIMEOUT_S) == 0


def create_there(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(THERE.topic, 1, 1)])[THERE.topic].result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(THERE.topic, b"made there")
    assert producer.flush(TIMEOUT_S) == 0


def move(direction: str, data: Path, connect: str) -> None:
    """Bring the tree of a directory into an ensemble, or back."""
    command = ["cluster", direction, "--data", str(data), "--zookeeper", connect]
    subprocess.run([sys.executable, "-m", "kbroker.cli", *command], check=True, timeout=60)


def settings_of(bootstrap: str) -> dict[str, dict[str, str]]:
    """The overrides of the topics, as a broker tells them."""
    resources = {topic: ConfigResource(ResourceType.TOPIC, topic) for topic in SETTINGS}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    answers = admin.describe_configs([*resources.values()])
    told = {topic: answers[resource].result(TIMEOUT_S) for topic, resource in resources.items()}
    return {
        topic: {name: told[topic][name].value for name in config}
        for topic, config in SETTINGS.items()
    }


@pytest.fixture
def here(tmp_path: Path) -> tuple[BrokerProcess, Rows]:
    """A broker that was killed, and what it served until then."""
    try:
        jars(ZOOKEEPER_LINE)
    except NotAvailableError as error:
        pytest.skip(str(error))
    as_3_9_reads = "--override=group.coordinator.rebalance.protocols=classic"
    broker = BrokerProcess(tmp_path / "data", (as_3_9_reads,))
    broker.start()
    use(broker.bootstrap)
    rows = read_rows(broker.bootstrap, PLACES, "read_uncommitted")
    broker.stop(signal.SIGKILL)
    return broker, rows


def test_apache_goes_on_with_data_and_tree_and_so_does_kbroker_after_it(
    here: tuple[BrokerProcess, Rows],
) -> None:
    broker, rows = here
    meta = read_meta_properties(RealFileSystem(), str(broker.data))
    assert meta is not None

    connect = fresh_chroot()
    move("export", broker.data, connect)
    apache = ApacheBroker(broker.data, connect, settings={"broker.id": str(meta.broker_id)})
    apache.start()
    served = read_rows(apache.bootstrap, PLACES, "read_uncommitted")
    settings = settings_of(apache.bootstrap)
    offsets = read_committed_offsets(apache.bootstrap, GROUP, PLACES)
    write(apache.bootstrap, "none")
    create_there(apache.bootstrap)
    after = read_rows(apache.bootstrap, [*PLACES, THERE], "read_uncommitted")
    apache.stop()
    move("import", broker.data, connect)
    digests = golden_logs.digests(broker.data)
    broker.start()
    served_here = read_rows(broker.bootstrap, [*PLACES, THERE], "read_uncommitted")
    broker.stop()

    assert [len(rows[place]) for place in PLACES] == [RECORDS] * len(PLACES)
    assert served == rows
    assert settings == SETTINGS
    assert offsets == {TopicPartition(PLAIN, p): 17 for p in range(3)}
    assert [line for line in apache.complaints() if "Recovering" not in line] == []
    assert served_here == after
    assert {place: after[place][:RECORDS] for place in PLACES} == rows
    assert len(after[THERE]) == 1
    assert all(row.offset == index for found in after.values() for index, row in enumerate(found))
    assert segments(golden_logs.digests(broker.data)) == segments(digests)


def test_a_cluster_that_began_with_apache_goes_on_without_zookeeper(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    try:
        connect = fresh_chroot()
        apache = ApacheBroker(broker.data, connect, settings={"broker.id": "3"})
        apache.start()
        use(apache.bootstrap)
        rows = read_rows(apache.bootstrap, PLACES, "read_uncommitted")
        apache.stop()
        move("import", broker.data, connect)
    except NotAvailableError as error:
        pytest.skip(str(error))
    digests = golden_logs.digests(broker.data)
    broker.start()
    served = read_rows(broker.bootstrap, PLACES, "read_uncommitted")
    settings = settings_of(broker.bootstrap)
    offsets = read_committed_offsets(broker.bootstrap, GROUP, PLACES)
    create_there(broker.bootstrap)
    assert broker.stop() == 0

    assert [len(rows[place]) for place in PLACES] == [RECORDS] * len(PLACES)
    assert served == rows
    assert settings == SETTINGS
    assert offsets == {TopicPartition(PLAIN, p): 17 for p in range(3)}
    unchanged = {
        name: digest
        for name, digest in segments(golden_logs.digests(broker.data)).items()
        if name in digests and not name.startswith("__consumer_offsets")
    }
    assert unchanged.items() <= segments(digests).items()


def segments(digests: dict[str, str]) -> dict[str, str]:
    """Of the digests those of records and indexes."""
    ends = (".log", ".index", ".timeindex")
    return {name: digest for name, digest in digests.items() if name.endswith(ends)}
