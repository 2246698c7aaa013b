"""Znode bytes are those of Kafka 3.9.2, as captured from two real brokers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kbroker.model import RECOVERING, Broker, EndPoint, LeaderAndIsr, SupportedFeature
from kbroker.zk import zk_paths
from kbroker.zk.zk_paths import ProducerIdBlock, ZnodeFormatError

GOLDEN = Path(__file__).parents[2] / "golden" / "zookeeper"
NODES = {
    node["path"]: node["data"].encode()
    for node in map(json.loads, (GOLDEN / "tree-3.9.2.jsonl").read_text().splitlines())
    if node["data"]
}


def paths_under(prefix: str, suffix: str = "") -> list[str]:
    return [path for path in NODES if path.startswith(prefix) and path.endswith(suffix)]


@pytest.mark.parametrize("path", paths_under("/brokers/topics/", "/state"))
def test_partition_states_are_read_and_written_to_the_byte(path: str) -> None:
    state = zk_paths.decode_partition_state(path, NODES[path], version=3)
    written = zk_paths.encode_partition_state(state.leader_and_isr, state.controller_epoch)
    assert written == NODES[path]
    assert state.leader_and_isr.partition_epoch == 3


def test_a_leader_that_recovers_is_marked_as_kafka_marks_it() -> None:
    written = (
        b'{"controller_epoch":1,"leader":0,"version":1,"leader_recovery_state":1,'
        b'"leader_epoch":3,"isr":[0]}'
    )
    state = zk_paths.decode_partition_state("/path", written, version=3)
    assert state.leader_and_isr.leader_recovery_state == RECOVERING
    assert zk_paths.encode_partition_state(state.leader_and_isr, 1) == written


def test_a_state_that_vouches_for_nobody_names_the_transaction_of_the_one_before() -> None:
    state = LeaderAndIsr(leader=-1, leader_epoch=3, isr=(1,))
    written = zk_paths.encode_partition_state(state, 1, caught_up_zxid=77)
    assert zk_paths.decode_partition_state("/path", written, version=0).zxid == 77


@pytest.mark.parametrize(
    "path", [p for p in paths_under("/brokers/topics/") if not p.endswith("/state")]
)
def test_topics_are_read_and_written_to_the_byte(path: str) -> None:
    topic = path.rpartition("/")[2]
    assert zk_paths.encode_topic(zk_paths.decode_topic(topic, NODES[path])) == NODES[path]
    assert zk_paths.topic_path(topic) == path


@pytest.mark.parametrize("path", paths_under("/brokers/ids/"))
def test_brokers_are_read_and_written_to_the_byte(path: str) -> None:
    document: dict[str, Any] = json.loads(NODES[path])
    broker = zk_paths.decode_broker(int(path.rpartition("/")[2]), NODES[path], epoch=27)
    assert zk_paths.encode_broker(broker, int(document["timestamp"])) == NODES[path]
    assert broker.epoch == 27


def test_addresses_of_version_6_stand_in_brackets_as_kafka_writes_them() -> None:
    broker = Broker(
        broker_id=3, end_points=(EndPoint(listener_name="PLAINTEXT", host="::1", port=9092),)
    )
    data = zk_paths.encode_broker(broker, 1)

    assert b'"endpoints":["PLAINTEXT://[::1]:9092"]' in data
    assert b'"host":"::1"' in data
    assert zk_paths.decode_broker(3, data, -1) == broker


def test_the_features_of_a_broker_are_read_as_they_were_written() -> None:
    broker = Broker(
        broker_id=3,
        end_points=(EndPoint(listener_name="PLAINTEXT", host="h", port=9092),),
        features=(SupportedFeature("group.version", 0, 1),),
    )
    data = zk_paths.encode_broker(broker, 1)

    assert data.startswith(b'{"features":{"group.version":{"min_version":0,"max_version":1}},')
    assert zk_paths.decode_broker(3, data, -1) == broker


@pytest.mark.parametrize(
    "path",
    [p for p in paths_under("/config/") if "/changes/" not in p],
)
def test_overrides_are_read_and_written_to_the_byte(path: str) -> None:
    assert zk_paths.encode_config(zk_paths.decode_config(path, NODES[path])) == NODES[path]


@pytest.mark.parametrize("path", paths_under("/config/changes/"))
def test_change_notifications_are_read_and_written_to_the_byte(path: str) -> None:
    entity_path = zk_paths.decode_config_change(NODES[path])
    assert zk_paths.encode_config_change(entity_path) == NODES[path]
    assert zk_paths.sequence_number(path) == int(path[-10:])


def test_single_nodes_are_written_to_the_byte() -> None:
    assert zk_paths.encode_controller(0, 1_795_251_754_004) == NODES["/controller"]
    assert zk_paths.encode_controller_epoch(1) == NODES["/controller_epoch"]
    cluster_id = zk_paths.decode_cluster_id(NODES["/cluster/id"])
    assert zk_paths.encode_cluster_id(cluster_id) == NODES["/cluster/id"]
    block = ProducerIdBlock(broker_id=1, first_id=1000, last_id=1999)
    assert zk_paths.decode_producer_id_block(NODES["/latest_producer_id_block"]) == block
    assert zk_paths.encode_producer_id_block(block) == NODES["/latest_producer_id_block"]


def test_persistent_paths_are_in_the_order_a_first_broker_creates_them() -> None:
    created: list[str] = []
    for line in (GOLDEN / "01-first-broker-start.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["op"] == "create" and event["zxid"] < 24:
            created.append(event["path"])
    expected = [p for p in created if p not in ("/brokers", "/config", "/admin")]
    assert list(zk_paths.PERSISTENT_PATHS) == expected


def test_older_forms_of_nodes_are_read() -> None:
    old_broker = b'{"version":1,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1"}'
    old_topic = b'{"version":1,"partitions":{"0":[1,2]}}'
    old_change = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
    end_point = EndPoint(listener_name="PLAINTEXT", host="h", port=9092)
    assert zk_paths.decode_broker(3, old_broker, 9) == Broker(
        broker_id=3, end_points=(end_point,), epoch=9
    )
    assert zk_paths.decode_topic("t", old_topic).partitions[0].replicas == (1, 2)
    assert zk_paths.decode_config_change(old_change) == "topics/t"


@pytest.mark.parametrize(
    "data", [None, b"", b"{", b"[]", b'{"version":1}', b"\xff", b'{"leader":{}}']
)
def test_data_that_is_not_kafkas_is_refused_with_the_path(data: bytes | None) -> None:
    with pytest.raises(ZnodeFormatError, match="/x/state"):
        zk_paths.decode_partition_state("/x/state", data, 0)
    with pytest.raises(ZnodeFormatError, match="/brokers/topics/t"):
        zk_paths.decode_topic("t", data)
    with pytest.raises(ZnodeFormatError, match="/brokers/ids/1"):
        zk_paths.decode_broker(1, data, 0)
    with pytest.raises(ZnodeFormatError):
        zk_paths.decode_controller(data)
    with pytest.raises(ZnodeFormatError):
        zk_paths.decode_producer_id_block(data)
    with pytest.raises(ZnodeFormatError):
        zk_paths.decode_controller_epoch(data)


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":5,"endpoints":[]}',
        b'{"version":5,"endpoints":["ODD://h:1"]}',
        b'{"version":5,"endpoints":["A://h:1"],"listener_security_protocol_map":{"A":"ODD"}}',
    ],
)
def test_a_broker_that_nobody_could_be_told_of_is_refused(data: bytes) -> None:
    with pytest.raises(ZnodeFormatError, match="/brokers/ids/1"):
        zk_paths.decode_broker(1, data, 0)


def test_a_state_without_isr_members_is_written_as_an_empty_list() -> None:
    state = LeaderAndIsr(leader=-1, leader_epoch=2, isr=())
    assert zk_paths.encode_partition_state(state, 4).endswith(b'"isr":[]}')
