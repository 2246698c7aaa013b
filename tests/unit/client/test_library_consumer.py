"""kafka-python reads what is packed without the libraries that its extras bring."""

from __future__ import annotations

import pytest
from kafka import codec as library_codecs
from kafka.cluster import ClusterMetadata
from kafka.consumer.group import KafkaConsumer
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import CorruptRecordError, GroupAuthorizationFailedError
from kafka.record import MemoryRecords, default_records, legacy_records

from kbroker.client import library_consumer
from kbroker.client.client_error import ClientError
from kbroker.client.library_consumer import MemberParts, client_errors, lend_codecs
from kbroker.record.compression import GZIP, LZ4, SNAPPY, ZSTD
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.record_batch import BatchOptions, Record, build

PACKED = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
ENTRIES = [Record(number, 5, b"k", b"value " * 20) for number in range(3)]


@pytest.fixture(autouse=True)
def without_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (library_codecs, default_records, legacy_records):
        for name in (f"{codec}_decode" for codec in PACKED):
            monkeypatch.setattr(module, name, None, raising=False)
    for codec in PACKED:
        monkeypatch.setattr(library_codecs, f"has_{codec}", lambda: False)
    lend_codecs()


def read(data: bytes) -> list[tuple[int, bytes | None]]:
    records, found = MemoryRecords(data), []
    while (batch := records.next_batch()) is not None:
        found += [(record.offset, record.value) for record in batch]
    return found


@pytest.mark.parametrize("codec", PACKED.values(), ids=PACKED)
def test_batches_are_unpacked(codec: int) -> None:
    data = build(ENTRIES, base_offset=0, options=BatchOptions(compression=codec))

    assert read(data) == [(entry.offset, entry.value) for entry in ENTRIES]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4], ids=["gzip", "snappy", "lz4"])
def test_messages_of_format_1_are_unpacked(codec: int) -> None:
    data = build_legacy(ENTRIES, 1, codec)

    assert read(data) == [(entry.offset, entry.value) for entry in ENTRIES]


@pytest.mark.parametrize("codec", PACKED.values(), ids=PACKED)
def test_what_cannot_be_unpacked_is_a_corrupt_record(codec: int) -> None:
    data = bytearray(build(ENTRIES, base_offset=0, options=BatchOptions(compression=codec)))
    data[61:] = b"\7" * len(data[61:])

    with pytest.raises(CorruptRecordError, match="cannot be read"):
        read(bytes(data))


def test_what_would_take_much_memory_is_left_to_the_own_reader() -> None:
    old = (Record(n, 5, None, b"v" * 100) for n in range(40_000))
    large = build([Record(0, 5, None, bytes(17 << 20))], options=BatchOptions(compression=ZSTD))

    for data in (build_legacy(old, 1, GZIP), large):
        with pytest.raises(CorruptRecordError, match="MESSAGE_TOO_LARGE"):
            read(data)


def test_the_library_still_has_the_parts_that_a_member_needs() -> None:
    attributes = {name for name in KafkaConsumer.__init__.__code__.co_names if name[0] == "_"}
    assert {"_cluster", "_coordinator"} <= attributes
    of_coordinator = {"poll", "coordinator_unknown", "_commit_offsets_sync_async"}
    assert all(callable(getattr(ConsumerCoordinator, name)) for name in of_coordinator)
    names = {*MemberParts.commit.__code__.co_names, *MemberParts.join.__code__.co_names}
    assert {"_commit_offsets_sync_async", "poll"} <= names
    assert ClusterMetadata.DEFAULT_CONFIG["allow_auto_create_topics"] is True
    assert callable(ClusterMetadata.partitions_for_topic)


def test_a_group_without_rights_is_named_in_the_words_of_other_commands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(library_consumer, "check_reachable", lambda _: None)
    refused = "^group billing cannot be used: GROUP_AUTHORIZATION_FAILED$"

    with pytest.raises(ClientError, match=refused), client_errors("h:1"):
        raise GroupAuthorizationFailedError("billing")
