"""One cluster of kbroker and Apache Kafka 3.9.2: each may be the controller and orders the others, and
clients use both alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from compat_tests.cluster.mixed_quotas import edit_at_once, edit_twins
from compat_tests.cluster.model import ModelTopic, differences
from compat_tests.cluster.processes import Cluster
from compat_tests.running.waiting import until
from compat_tests.running.zookeeper_servers import ZooKeeperServers
from compat_tests.wire.record_bytes import batch
from compat_tests.wire.wire_client import (
    ALTER_CLIENT_QUOTAS,
    ALTER_USER_SCRAM_CREDENTIALS,
    CREATE_PARTITIONS,
    DELETE_TOPICS,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    code,
)

pytestmark = pytest.mark.java

APACHE = 3
KBROKERS = (1, 2)
IDS_IN_A_BLOCK = 1_000
CONTROLLERS = pytest.mark.parametrize("controller", [1, APACHE], ids=["kbroker", "apache"])


@pytest.fixture(scope="module")
def shared_mixed(
    target: str, zookeeper: ZooKeeperServers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Two of kbroker and one of Apache Kafka."""
    if target != "kbroker":
        pytest.skip("puts kbroker and Apache Kafka together")
    folder, kinds = tmp_path_factory.mktemp("mixed"), ["kbroker", "kbroker", "apache"]
    with Cluster(folder, zookeeper, kinds, chroot="/mixed") as cluster:
        cluster.start()
        yield cluster
        for number in KBROKERS:
            assert "Traceback" not in cluster.brokers[number].log_text()


@pytest.fixture
def mixed(shared_mixed: Cluster) -> Cluster:
    shared_mixed.heal()
    return shared_mixed


@CONTROLLERS
def test_topics_spread_over_both_are_created_grown_reconfigured_and_deleted(
    mixed: Cluster, topic: str, controller: int
) -> None:
    mixed.make_controller(controller)

    mixed.create_topic(topic, 1, 2, APACHE, retention_ms="3600000")
    growth = {"name": topic, "count": 5,
              "assignments": [{"broker_ids": [APACHE]}, {"broker_ids": [1]}]}  # fmt: skip
    with mixed.wire(mixed.controller_id()) as wire:
        grown = wire.call(CREATE_PARTITIONS, 1, topics=[growth], timeout=20_000)
    assert code(grown.results[0].error_code) == "0"
    leaders = {0: 1, 1: 2, 2: APACHE, 3: APACHE, 4: 1}
    mixed.wait_for_leaders(topic, leaders)
    for number, entry in ((APACHE, "max.message.bytes"), (1, "segment.bytes")):
        resource = {"resource_type": 2, "resource_name": topic, "configs": [
            {"name": entry, "config_operation": 0, "value": "2000000"}]}  # fmt: skip
        with mixed.wire(number) as wire:
            altered = wire.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
        assert code(altered.responses[0].error_code) == "0"
    configs = {"retention.ms": "3600000", "max.message.bytes": "2000000",
               "segment.bytes": "2000000"}  # fmt: skip
    model = {topic: ModelTopic(5, configs)}
    until(lambda: not about(topic, differences(mixed, model)), "all brokers agree")
    for partition, leader in leaders.items():
        with mixed.wire(leader) as wire:
            assert wire.produce(topic, batch(), partition=partition).startswith("0; base_offset=0")
    with mixed.wire(mixed.controller_id()) as wire:
        deleted = wire.call(DELETE_TOPICS, 5, topic_names=[topic], timeout=20_000)
    assert code(deleted.responses[0].error_code) == "0"
    until(lambda: topic not in mixed.tree.topics(), "the topic is gone")
    until(lambda: not about(topic, differences(mixed, {})), "all brokers have forgotten it")


def about(topic: str, found: list[str]) -> list[str]:
    return [line for line in found if topic in line]


def test_a_kbroker_forwards_to_a_controller_of_apache_kafka(mixed: Cluster, topic: str) -> None:
    mixed.make_controller(APACHE)

    with mixed.wire(1) as wire:
        created = wire.create_topics({"name": topic, "num_partitions": 3})
        deleted = wire.call(DELETE_TOPICS, 5, topic_names=[topic], timeout=20_000)

    assert created == ["0"]
    assert code(deleted.responses[0].error_code) == "0"


def test_both_tell_quotas_and_credentials_whoever_stored_them(mixed: Cluster) -> None:
    mixed.make_controller(APACHE)  # who alone stores credentials there
    user, client = ("user", "ä lice"), ("client-id", None)
    entries = [
        {"entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
         "ops": [{"key": "producer_byte_rate", "value": rate, "remove": False}]}
        for entity, rate in (((user,), 1000.0), ((user, client), 2000.0), ((client,), 3000.0))
    ]  # fmt: skip
    credential = {"name": "ä lice", "mechanism": 1, "iterations": 4096,
                  "salt": b"salt", "salted_password": b"p" * 32}  # fmt: skip
    other = credential | {"mechanism": 2, "iterations": 8192}
    with mixed.wire(APACHE) as wire:
        altered = wire.call(ALTER_CLIENT_QUOTAS, 1, entries=entries[:2], validate_only=False)
        stored = wire.call(ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[], upsertions=[credential])
    with mixed.wire(1) as wire:  # at any kbroker
        here = wire.call(ALTER_CLIENT_QUOTAS, 1, entries=entries[2:], validate_only=False)
        added = wire.call(ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[], upsertions=[other])
    results = (*altered.entries, *here.entries, *stored.results, *added.results)
    assert {entry.error_code for entry in results} == {0}

    quotas, credentials = [], []
    for number in (1, APACHE):
        with mixed.wire(number) as wire:
            answer = wire.call(DESCRIBE_CLIENT_QUOTAS, 1, components=[], strict=False)
            quotas.append(sorted(map(repr, answer.entries)))
            credentials.append(wire.call(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None).results)

    assert len(quotas[0]) == 3
    assert quotas[0] == quotas[1]
    assert [each.user for each in credentials[0]] == ["ä lice"]
    assert [each.iterations for each in credentials[0][0].credential_infos] == [4096, 8192]
    assert credentials[0] == credentials[1]


def test_quotas_that_both_edit_have_the_same_nodes_and_none_is_lost(mixed: Cluster) -> None:
    edit_twins(mixed, Random(7), 30)
    edit_at_once(mixed, 7, 90)


@CONTROLLERS
def test_producer_ids_of_all_brokers_come_from_the_controller_and_none_twice(
    mixed: Cluster, controller: int
) -> None:
    mixed.make_controller(controller)

    given = [
        number
        for broker in (1, APACHE)
        for number in producer_ids(mixed, broker, IDS_IN_A_BLOCK + 100)
    ]

    assert len(set(given)) == len(given)


def producer_ids(cluster: Cluster, broker_id: int, count: int) -> list[int]:
    found: list[int] = []
    with cluster.wire(broker_id) as wire:
        while len(found) < count:
            answer = wire.call(INIT_PRODUCER_ID, 1, transactional_id=None)
            assert answer.error_code in (0, 14), code(answer.error_code)
            if answer.error_code == 0:
                found.append(int(answer.producer_id))
    return found


def test_clients_use_both_alike_through_any_address(mixed: Cluster, topic: str, group: str) -> None:
    mixed.create_topic(topic, 1, APACHE, 2)
    written = []
    for number, bootstrap in enumerate(mixed.bootstraps):
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        values = [b"%d-%d" % (number, n) for n in range(30)]
        for n, value in enumerate(values):
            producer.produce(topic, value, partition=n % 3)
        assert producer.flush(30) == 0
        written += values
    plain = KafkaProducer(bootstrap_servers=mixed.address(APACHE), acks="all")
    assert plain.send(topic, b"plain", partition=0).get(30).offset == 30
    plain.close()

    for bootstrap in mixed.bootstraps:
        assert sorted(read(bootstrap, topic, f"{group}-{bootstrap}", 91)) == sorted(
            [*written, b"plain"]
        )
    python = KafkaConsumer(
        topic, bootstrap_servers=mixed.address(1), group_id=f"{group}-python",
        auto_offset_reset="earliest", consumer_timeout_ms=30_000,
    )  # fmt: skip
    assert len([next(python) for _ in range(91)]) == 91
    python.close()


def read(bootstrap: str, topic: str, group: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[bytes] = []

    def has_all() -> bool:
        for message in consumer.consume(500, timeout=0.2):
            assert message.error() is None, message.error()
            found.append(message.value())
        return len(found) >= count

    until(has_all, f"{count} records of {topic}")
    consumer.close()
    return found


@CONTROLLERS
def test_a_broker_of_the_other_kind_stops_and_comes_back(
    mixed: Cluster, topic: str, controller: int
) -> None:
    mixed.make_controller(controller)
    stopped = APACHE if controller in KBROKERS else 1
    mixed.create_topic(topic, stopped, controller)

    mixed.stop(stopped)

    until(lambda: stopped not in mixed.tree.broker_ids(), "it is gone")
    mixed.wait_for_leaders(topic, {0: -1, 1: controller})
    mixed.start(stopped)
    mixed.wait_for_leaders(topic, {0: stopped, 1: controller})


@CONTROLLERS
def test_a_killed_controller_is_followed_by_one_that_knows_all(
    mixed: Cluster, topic: str, controller: int
) -> None:
    mixed.make_controller(controller)
    mixed.create_topic(topic, *mixed.ids)
    epoch = mixed.tree.controller_epoch()

    mixed.kill(controller)

    until(lambda: mixed.tree.controller_id() not in (None, controller), "a new controller")
    assert mixed.tree.controller_epoch() == epoch + 1
    lost = {n: -1 if b == controller else b for n, b in enumerate(mixed.ids)}
    mixed.wait_for_leaders(topic, lost)
    mixed.start(controller)
    mixed.wait_for_leaders(topic, dict(enumerate(mixed.ids)))
