"""Cluster id and leader epochs, asked of a real broker."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from kafka.admin import KafkaAdminClient, NewTopic

from compat_tests.conftest import BrokerProcess
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.evidence.cluster_evidence import ClusterIdentity
from kbroker.pipeline.archiving.evidence.log_evidence import LogIdentity

BEGIN_MS = time.time_ns() // 1_000_000 - 3_600_000  # younger than retention
A0, A1, GONE = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("gone", 0)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with topic `a` of two partitions; the first has 7 records."""
    process = BrokerProcess(tmp_path_factory.mktemp("broker") / "data")
    process.start()
    admin = KafkaAdminClient(bootstrap_servers=process.bootstrap)
    admin.create_topics([NewTopic("a", num_partitions=2, replication_factor=1)])
    admin.close()
    producer = Producer({"bootstrap.servers": process.bootstrap})
    for at in range(7):
        producer.produce("a", b"v", partition=0, timestamp=BEGIN_MS + at)
    producer.flush()
    yield process
    process.stop()


def test_an_epoch_that_goes_on_ends_with_the_log(broker: BrokerProcess) -> None:
    identity = ClusterIdentity(broker.bootstrap)

    epochs = identity.leader_epochs([A0, A1, GONE])

    assert epochs == {A0: 0, A1: 0}
    assert identity.end_offsets(epochs) == {A0: 7, A1: 0}


def test_an_epoch_that_the_leader_does_not_know_says_nothing(broker: BrokerProcess) -> None:
    found = ClusterIdentity(broker.bootstrap).end_offsets({A0: 99, A1: 0, GONE: 0})

    assert found == {A1: 0}


def test_records_have_their_times_and_places_without_records_none(broker: BrokerProcess) -> None:
    identity = ClusterIdentity(broker.bootstrap)

    assert identity.record_times({A0: 4, A1: 0, GONE: 0}) == {A0: BEGIN_MS + 4}
    assert identity.record_times({A0: 7}) == {}


def test_nothing_is_asked_for_nothing(broker: BrokerProcess) -> None:
    identity = ClusterIdentity(broker.bootstrap)

    assert (identity.leader_epochs([]), identity.end_offsets({})) == ({}, {})


def test_the_cluster_is_that_of_its_directory(broker: BrokerProcess) -> None:
    found = ClusterIdentity(broker.bootstrap).cluster_id()

    assert found is not None
    assert found == LogIdentity([str(broker.data)]).cluster_id()
