"""Records of KRaft's metadata log: frame, kind, version, fields."""

from __future__ import annotations

from uuid import UUID

import pytest

from kbroker.errors import ProtocolError
from kbroker.protocol.codec import encode
from kbroker.protocol.primitives import write_uvarint
from kbroker.protocol.schema import Message
from kbroker.server.adoption import kraft_records as kinds

TOPIC_ID = UUID(int=7)
NO_OP_KIND = 20


def framed(message: Message, version: int = 0) -> bytes:
    assert message.spec.key is not None
    return (
        b"\x01"
        + write_uvarint(message.spec.key)
        + write_uvarint(version)
        + encode(message, version)
    )


def test_a_topic_is_read_with_its_id() -> None:
    # name "orders", compact string; id; no tagged fields
    value = bytes.fromhex("01020007" + b"orders".hex() + TOPIC_ID.bytes.hex() + "00")

    assert kinds.read_metadata_record(value) == kinds.TopicRecord(name="orders", topic_id=TOPIC_ID)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_partition_is_read_in_every_version(version: int) -> None:
    record = kinds.PartitionRecord(partition_id=3, topic_id=TOPIC_ID, leader=1, leader_epoch=9)

    assert kinds.read_metadata_record(framed(record, version)) == record


def test_a_change_without_a_leader_says_so() -> None:
    read = kinds.read_metadata_record(
        framed(kinds.PartitionChangeRecord(topic_id=TOPIC_ID, isr=[1]))
    )

    assert isinstance(read, kinds.PartitionChangeRecord)
    assert read.leader == kinds.NO_LEADER_CHANGE
    assert read.isr == [1]


def test_kinds_that_tell_nothing_about_topics_are_passed_over() -> None:
    assert kinds.read_metadata_record(b"\x01" + write_uvarint(NO_OP_KIND) + b"\x00\x00") is None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\x02\x02\x00", "frame version 2"),
        (b"\x01\x02\x01", "TopicRecord version 1"),
        (b"\x01\x02\x00\x07ord", "ord|bytes|cut|short|past"),
        (b"", "cut short"),
    ],
)
def test_other_bytes_are_refused(value: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        kinds.read_metadata_record(value)
