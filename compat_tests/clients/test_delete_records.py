"""Records are deleted and directories described by the admin clients of real libraries; what was
deleted stays so after a kill.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as Partition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaStorageError, OffsetOutOfRangeError, PolicyViolationError

from compat_tests.clients.every_client import create_topic, samples
from compat_tests.commands.tool_runner import run_tool
from compat_tests.conftest import BrokerProcess
from compat_tests.running import apache_kafka

VERSIONS = (apache_kafka.NEWEST, apache_kafka.ZOOKEEPER_LINE)


def fill(bootstrap: str, topic: str, count: int = 100) -> None:
    create_topic(bootstrap, topic, 1)
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for sample in samples(count, null_headers=False):
        producer.send(topic, sample.value, sample.key, timestamp_ms=sample.timestamp_ms)
    producer.close()


def bounds(bootstrap: str, topic: str) -> tuple[int, int]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    partition = Partition(topic, 0)
    start = consumer.beginning_offsets([partition])[partition]
    end = consumer.end_offsets([partition])[partition]
    consumer.close()
    return start, end


def first_read(bootstrap: str, topic: str) -> int:
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=5_000
    )
    offset: int = next(iter(consumer)).offset
    consumer.close()
    return offset


def test_confluent_kafka_deletes_records(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})

    (future,) = admin.delete_records([TopicPartition(topic, 0, 42)]).values()

    assert future.result(20).low_watermark == 42
    assert bounds(bootstrap, topic) == (42, 100)
    assert first_read(bootstrap, topic) == 42


def test_kafka_python_deletes_records(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic)
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    told = admin.delete_records({Partition(topic, 0): 42})
    with pytest.raises(OffsetOutOfRangeError):
        admin.delete_records({Partition(topic, 0): 101})
    admin.delete_records({Partition(topic, 0): -1})
    admin.close()

    assert told[Partition(topic, 0)]["low_watermark"] == 42
    assert bounds(bootstrap, topic) == (100, 100)


def test_kafka_python_is_refused_for_a_compacted_topic(
    one_broker: None, bootstrap: str, topic: str
) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    configs = {"cleanup.policy": "compact"}
    admin.create_topics(
        {topic: {"num_partitions": 1, "replication_factor": -1, "configs": configs}}
    )

    with pytest.raises(PolicyViolationError):
        admin.delete_records({Partition(topic, 0): 0})
    admin.close()


@pytest.mark.java
@pytest.mark.parametrize("version", VERSIONS)
def test_the_java_tool_deletes_records(
    bootstrap: str, topic: str, version: str, tmp_path: Path
) -> None:
    fill(bootstrap, topic)
    wanted = [{"topic": topic, "partition": 0, "offset": 42}]
    (tmp_path / "offsets.json").write_text(json.dumps({"partitions": wanted, "version": 1}))

    done = run_tool(
        "org.apache.kafka.tools.DeleteRecordsCommand", "--bootstrap-server", bootstrap,
        "--offset-json-file", str(tmp_path / "offsets.json"), version=version,
    )  # fmt: skip

    assert f"partition: {topic}-0\tlow_watermark: 42" in done.stdout, done.stdout + done.stderr
    assert bounds(bootstrap, topic) == (42, 100)


@pytest.mark.java
@pytest.mark.parametrize("version", VERSIONS)
def test_the_java_tool_describes_directories(
    one_broker: None, bootstrap: str, topic: str, version: str
) -> None:
    fill(bootstrap, topic)

    done = run_tool(
        "org.apache.kafka.tools.LogDirsCommand", "--bootstrap-server", bootstrap,
        "--describe", "--topic-list", topic, version=version,
    )  # fmt: skip

    (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
    (broker,) = json.loads(line)["brokers"]
    (directory,) = broker["logDirs"]
    (replica,) = directory["partitions"]
    assert (directory["error"], replica["partition"]) == (None, f"{topic}-0")
    assert (replica["size"] > 1000, replica["offsetLag"], replica["isFuture"]) == (True, 0, False)


def test_kafka_python_describes_directories(one_broker: None, bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic)
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    (broker,) = admin.describe_log_dirs([topic])
    admin.close()

    (directory,) = broker["log_dirs"]
    (described,) = directory["topics"]
    (partition,) = described["partitions"]
    assert (directory["error_code"], described["name"]) == (0, topic)
    assert partition["partition_size"] > 1000
    assert directory["total_bytes"] > directory["usable_bytes"] > 0


def test_a_directory_that_cannot_be_used_is_described_with_its_error(
    own_broker: Callable[..., BrokerProcess], topic: str, tmp_path: Path
) -> None:
    """The other directory is served: of two, one is a file."""
    (tmp_path / "broken").write_text("no directory")
    directories = f"{tmp_path}/broker-0/data,{tmp_path}/broken"
    broker = own_broker("--override", f"log.dirs={directories}")
    fill(broker.bootstrap, topic)
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)

    (answer,) = admin.describe_log_dirs()
    admin.close()

    described = {entry["log_dir"]: entry for entry in answer["log_dirs"]}
    offline = described[f"{tmp_path}/broken"]
    online = described[f"{tmp_path}/broker-0/data"]
    assert (offline["error_code"], offline["topics"]) == (KafkaStorageError.errno, [])
    assert (offline["total_bytes"], offline["usable_bytes"]) == (-1, -1)
    assert (online["error_code"], [t["name"] for t in online["topics"]]) == (0, [topic])


def test_what_was_deleted_stays_so_after_a_kill(
    own_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = own_broker()
    fill(broker.bootstrap, topic)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    (future,) = admin.delete_records([TopicPartition(topic, 0, 42)]).values()
    future.result(20)
    broker.stop(signal.SIGKILL)
    broker.start()

    assert bounds(broker.bootstrap, topic) == (42, 100)
    assert first_read(broker.bootstrap, topic) == 42
    written = (broker.data / "log-start-offset-checkpoint").read_text()
    assert re.search(rf"^{topic} 0 42$", written, re.MULTILINE)
