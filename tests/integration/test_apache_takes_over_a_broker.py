"""A directory that began with kbroker goes to Apache Kafka together with its tree: the nodes of the
embedded tree, copied as they are to ZooKeeper, make Apache Kafka the next broker of the cluster.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from compat_tests.apache_directories import ApacheBroker, zookeeper
from compat_tests.apache_kafka import ZOOKEEPER_LINE, NotAvailableError, jars
from compat_tests.conftest import BrokerProcess
from kbroker.log.checkpoint import read_meta_properties
from kbroker.log.file_system import RealFileSystem
from kbroker.model import TopicPartition
from kbroker.server.tree_files import TreeDirectory
from kbroker.zk.embedded_tree import EmbeddedTree
from tests.fakes.log_maker import FixedClock
from tests.golden import golden_logs
from tests.integration.apache_tree import copy_tree
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


def tree_of(data: Path) -> dict[str, bytes | None]:
    """The nodes that outlive the broker."""
    tree = EmbeddedTree(FixedClock(), TreeDirectory(RealFileSystem(), str(data)))
    nodes = {path: value for path, value, _ in tree.dump() if path != "/"}
    tree.close()
    return nodes


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
    broker = BrokerProcess(tmp_path / "data")
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

    with zookeeper() as connect:
        copy_tree(connect, tree_of(broker.data))
        apache = ApacheBroker(broker.data, connect, settings={"broker.id": str(meta.broker_id)})
        apache.start()
        served = read_rows(apache.bootstrap, PLACES, "read_uncommitted")
        settings = settings_of(apache.bootstrap)
        offsets = read_committed_offsets(apache.bootstrap, GROUP, PLACES)
        write(apache.bootstrap, "none")
        after = read_rows(apache.bootstrap, PLACES, "read_uncommitted")
        apache.stop()
    digests = golden_logs.digests(broker.data)
    broker.start()
    served_here = read_rows(broker.bootstrap, PLACES, "read_uncommitted")
    broker.stop()

    assert [len(rows[place]) for place in PLACES] == [RECORDS] * len(PLACES)
    assert served == rows
    assert settings == SETTINGS
    assert offsets == {TopicPartition(PLAIN, p): 17 for p in range(3)}
    assert [line for line in apache.complaints() if "Recovering" not in line] == []
    assert served_here == after
    assert {place: found[:RECORDS] for place, found in after.items()} == rows
    assert all(row.offset == index for found in after.values() for index, row in enumerate(found))
    assert segments(golden_logs.digests(broker.data)) == segments(digests)


def segments(digests: dict[str, str]) -> dict[str, str]:
    """Of the digests those of records and indexes."""
    ends = (".log", ".index", ".timeindex")
    return {name: digest for name, digest in digests.items() if name.endswith(ends)}
