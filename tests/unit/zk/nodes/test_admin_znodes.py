"""Requests and news for the controller have the bytes of Kafka 3.9.2."""

from __future__ import annotations

import pytest

from kbroker.model import TopicPartition
from kbroker.zk.nodes import admin_znodes
from kbroker.zk.zk_paths import ZnodeFormatError

M0, M1 = TopicPartition("moving", 0), TopicPartition("moving", 1)
REASSIGNMENT = (
    b'{"version":1,"partitions":[{"topic":"moving","partition":0,"replicas":[1,0]},'
    b'{"topic":"moving","partition":1,"replicas":[2]}]}'
)
PARTITIONS = (
    b'{"version":1,"partitions":[{"topic":"moving","partition":0},'
    b'{"topic":"moving","partition":1}]}'
)


def test_a_reassignment_is_written_and_read_to_the_byte() -> None:
    wanted = {M0: (1, 0), M1: (2,)}
    assert admin_znodes.encode_reassignment(wanted) == REASSIGNMENT
    assert admin_znodes.decode_reassignment(REASSIGNMENT) == wanted


def test_a_preferred_election_is_read() -> None:
    assert admin_znodes.decode_preferred_election(PARTITIONS) == {M0, M1}


def test_an_isr_change_is_written_and_read_to_the_byte() -> None:
    assert admin_znodes.encode_isr_change([M0, M1]) == PARTITIONS
    assert admin_znodes.decode_isr_change("/p", PARTITIONS) == {M0, M1}


def test_a_log_dir_event_is_written_and_read_to_the_byte() -> None:
    assert admin_znodes.encode_log_dir_event(7) == b'{"version":1,"broker":7,"event":1}'
    assert admin_znodes.decode_log_dir_event("/p", b'{"version":1,"broker":7,"event":1}') == 7


def test_a_reassignment_without_version_or_partitions_is_taken_as_kafka_takes_it() -> None:
    without_version = b'{"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}'
    assert admin_znodes.decode_reassignment(without_version) == {TopicPartition("t", 0): (1,)}
    assert admin_znodes.decode_reassignment(b'{"version":1}') == {}


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"{",
        b"[]",
        b"[" * 100_000,
        b"\xff",
        b'{"version":1,"partitions":3}',
        b'{"version":1,"partitions":[3]}',
        b'{"version":1,"partitions":["t"]}',
        b'{"version":1,"partitions":[{"topic":"t","partition":0}]}',
        b'{"version":1,"partitions":[{"topic":"t","partition":"0","replicas":[1]}]}',
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":["1"]}]}',
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[4294967296]}]}',
        b'{"version":1,"partitions":[{"topic":7,"partition":0,"replicas":[1]}]}',
        b'{"version":1,"partitions":[],"throttle":3}',
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[],"log_dirs":[]}]}',
    ],
)
def test_what_is_no_reassignment_is_refused_by_its_path(data: bytes | None) -> None:
    with pytest.raises(ZnodeFormatError, match=r"^/admin/reassign_partitions: "):
        admin_znodes.decode_reassignment(data)


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"{",
        b"{}",
        b'{"partitions":null}',
        b'{"partitions":[null]}',
        b'{"partitions":[{"topic":"t"}]}',
        b'{"partitions":[{"topic":"t","partition":1.5}]}',
        b'{"partitions":[{"topic":"t","partition":true}]}',
    ],
)
def test_what_names_no_partitions_is_refused_by_its_path(data: bytes | None) -> None:
    with pytest.raises(ZnodeFormatError, match=r"^/admin/preferred_replica_election: "):
        admin_znodes.decode_preferred_election(data)
    with pytest.raises(ZnodeFormatError, match=r"^/isr_change_notification/x: "):
        admin_znodes.decode_isr_change("/isr_change_notification/x", data)


@pytest.mark.parametrize("data", [None, b"{", b"{}", b'{"broker":"1"}', b'{"broker":null}'])
def test_what_names_no_broker_is_refused_by_its_path(data: bytes | None) -> None:
    with pytest.raises(ZnodeFormatError, match=r"^/x: "):
        admin_znodes.decode_log_dir_event("/x", data)
