"""Records of the brokers' own topics that are none: shown as they are, never a crash."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest

from kbroker.coordinator.consumer_group.record_values import CurrentMemberAssignment, MemberState
from kbroker.coordinator.consumer_group.records import current_member_assignment
from kbroker.coordinator.runtime.versioned_record import versioned
from kbroker.decoding.group_record_schemas import SCHEMAS
from kbroker.decoding.internal_records import internal_decoder_of
from kbroker.model import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kbroker.protocol.codec import decode
from kbroker.wording import uuid_text
from tests.golden import group_records
from tests.golden.group_records import GoldenRecord

KEY = b"\x00\x00\x00\x01t"
NEWER = tuple(kind.to_bytes(2, "big") for kind in range(3, 24))
PIECES = (None, b"", b"\x00", b"\x00\x00", b"\x00\x63", b"\xff\xff", b"\x00\x01\x7f\xff", KEY)


@pytest.mark.parametrize("topic", [GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC])
@pytest.mark.parametrize("value", PIECES)
@pytest.mark.parametrize("key", PIECES + NEWER)
def test_any_bytes_are_shown(topic: str, key: bytes | None, value: bytes | None) -> None:
    decoder = internal_decoder_of(topic)
    assert decoder is not None

    shown_key, _ = decoder(key, value)

    assert "kind" in shown_key


def shown(golden: GoldenRecord) -> tuple[Any, Any]:
    return decoded(*golden.record)


def decoded(key: bytes | None, value: bytes | None) -> tuple[Any, Any]:
    decoder = internal_decoder_of(GROUP_METADATA_TOPIC)
    assert decoder is not None
    return decoder(key, value)


@pytest.mark.parametrize("kind", sorted(SCHEMAS.keys() - {9, 18}))  # Kafka 4.3 has none of these
def test_layouts_are_those_of_kafkas_own_classes(kind: int) -> None:
    name, key_class, value_class = SCHEMAS[kind]
    golden = [each for each in group_records.records() if each.kind == kind]
    assert value_class is not None

    for each in golden:
        key, value = each.record
        assert each.name == name
        assert decode(key_class, 0, key, 2)[0] == group_records.from_json(key_class, each.key)
        assert versioned(group_records.from_json(value_class, each.value), 0) == value
        shown_key, shown_value = shown(each)
        assert shown_key == {"kind": name, **in_snake_case(each.key)}
        assert names_of(each.value) <= shown_value.keys()
    assert golden


def in_snake_case(fields: dict[str, Any]) -> dict[str, Any]:
    return {re.sub("([A-Z])", r"_\1", name).lower(): value for name, value in fields.items()}


def names_of(value: dict[str, Any]) -> set[str]:
    """Those that are always shown: the others have tags, and may have their default."""
    tagged = {"metadata_hash", "assignment_timestamp", "classic_member_metadata",
              "validated_topology_epoch", "last_assignment_configs"}  # fmt: skip
    return in_snake_case(value).keys() - tagged


def test_a_member_of_a_consumer_group_is_shown_with_what_it_has() -> None:
    topic_id = UUID(int=7)
    current = CurrentMemberAssignment(
        5, 4, MemberState.UNRELEASED_PARTITIONS, {topic_id: {0: 5, 1: 4}}, {}
    )
    assert decoded(*current_member_assignment("g", "m", current)) == (
        {"kind": "ConsumerGroupCurrentMemberAssignment", "group_id": "g", "member_id": "m"},
        {
            "version": 0,
            "member_epoch": 5,
            "previous_member_epoch": 4,
            "state": "UNRELEASED_PARTITIONS",
            "assigned_partitions": [
                {"topic_id": uuid_text(topic_id), "partitions": [0, 1], "assignment_epochs": [5, 4]}
            ],
            "partitions_pending_revocation": [],
        },
    )


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (b"\0\x09\0\x01g", {"kind": "ShareGroupPartitionMetadata", "group_id": "g"}),
        (b"\0\x12\0\x01g", {"kind": "StreamsGroupPartitionMetadata", "group_id": "g"}),
        (b"\0\x18", {"kind": "unknown (key version 24)", "base64": "ABg="}),
    ],
)
def test_what_no_release_describes_is_shown_by_its_name_and_bytes(
    key: bytes, kind: dict[str, str]
) -> None:
    assert decoded(key, b"\0\0") == (kind, {"base64": "AAA="})
    assert decoded(key, None) == (kind, None)
