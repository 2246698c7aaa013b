"""Adoption of one broker's directory of a cluster: some partitions lived elsewhere, and the last one
of an internal topic is among them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from tests.faults.running_broker import RunningBroker
from tests.golden import golden_logs

NAME = "3.9.2-clean"
GONE = ("plain-0", "__consumer_offsets-0", "__transaction_state-2")
TIMEOUT_S = 10


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    data = golden_logs.unpack(NAME, tmp_path_factory.mktemp("cluster") / "data")
    for name in GONE:
        (data / name).rename(data.parent / name)
    running = RunningBroker(data, "--adopt").start()
    yield running
    running.end()


def test_a_partition_that_was_elsewhere_begins_empty(broker: RunningBroker) -> None:
    assert "3 partitions without a directory here" in broker.said()
    bootstrap = f"127.0.0.1:{broker.port}"
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    places = [TopicPartition("plain", p) for p in range(2)]

    ends = consumer.end_offsets(places)
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    sent = [producer.send("plain", b"v", partition=p).get(TIMEOUT_S).offset for p in range(2)]

    assert ends[places[0]] == 0
    assert sent == [0, ends[places[1]]]
    producer.close()
    consumer.close()


def test_groups_that_are_kept_here_keep_their_offsets(broker: RunningBroker) -> None:
    rows = golden_logs.lines(NAME, "expected")
    expected = {(r["group"], r["partition"]): r["offset"] for r in rows if r["kind"] == "committed"}
    client = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{broker.port}")

    found = {
        (group, place.partition): known.offset
        for group, offsets in client.list_group_offsets(sorted({g for g, _ in expected})).items()
        for place, known in offsets.items()
        if known.offset >= 0
    }

    client.close()
    assert found
    assert found.items() <= expected.items()


def test_epochs_go_on_above_those_of_the_cluster(broker: RunningBroker) -> None:
    file = "epochs-0/leader-epoch-checkpoint"
    before = golden_logs.files(NAME)[file].decode().splitlines()[2:]
    producer = KafkaProducer(bootstrap_servers=f"127.0.0.1:{broker.port}")

    offset = producer.send("epochs", b"v", partition=0).get(TIMEOUT_S).offset

    producer.close()
    highest = int(before[-1].split()[0])
    after = (broker.data / file).read_text().splitlines()[2:]
    assert after == [*before, f"{highest + 1} {offset}"]
    assert len(before) > 1
