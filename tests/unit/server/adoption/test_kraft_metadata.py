"""What KRaft's metadata log says: replay, snapshots, and logs that cannot be trusted."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from kbroker.log.disk.file_system import RealFileSystem
from kbroker.protocol.schema import Message
from kbroker.record.record_batch import Record, build
from kbroker.server.adoption import kraft_records as kinds
from kbroker.server.adoption.kraft_metadata import (
    METADATA_DIRECTORY,
    ClusterMetadata,
    MetadataUnreadableError,
    read_cluster_metadata,
    replay,
)
from tests.golden import golden_logs
from tests.unit.server.adoption.test_kraft_records import framed

ORDERS, LOGS = UUID(int=1), UUID(int=2)
TOPIC = kinds.TopicRecord(name="orders", topic_id=ORDERS)
PARTITION = kinds.PartitionRecord(partition_id=0, topic_id=ORDERS, leader=1, leader_epoch=4)


def setting(name: str, value: str | None, topic: str = "orders") -> Message:
    return kinds.ConfigRecord(
        resource_type=kinds.TOPIC_RESOURCE, resource_name=topic, name=name, value=value
    )


def batch(base_offset: int, *messages: Message) -> bytes:
    return build(
        [Record(base_offset + i, 5, None, framed(m)) for i, m in enumerate(messages)],
        base_offset=base_offset,
    )


def read(directory: Path) -> ClusterMetadata:
    return read_cluster_metadata(RealFileSystem(), str(directory))


def write_log(directory: Path, base_offset: int, *batches: bytes) -> Path:
    path = directory / f"{base_offset:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


# ---- replay


def test_a_topic_has_partitions_epochs_and_settings() -> None:
    metadata = replay([TOPIC, PARTITION, setting("retention.ms", "5")])

    assert metadata.topics[ORDERS].name == "orders"
    assert metadata.topics[ORDERS].leader_epochs == {0: 4}
    assert metadata.topic_settings == {"orders": {"retention.ms": "5"}}


def test_only_a_named_leader_raises_the_epoch() -> None:
    shrunk = kinds.PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=[1])
    elected = kinds.PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=2)

    metadata = replay([TOPIC, PARTITION, shrunk, elected])

    assert metadata.topics[ORDERS].leader_epochs == {0: 5}
    assert metadata.topics[ORDERS].in_sync == {0: (1,)}


def test_a_deleted_topic_takes_its_settings_along() -> None:
    metadata = replay(
        [TOPIC, setting("retention.ms", "5"), kinds.RemoveTopicRecord(topic_id=ORDERS)]
    )

    assert not metadata.topics
    assert not metadata.topic_settings


def test_a_setting_without_value_is_gone() -> None:
    metadata = replay([TOPIC, setting("retention.ms", "5"), setting("retention.ms", None)])

    assert metadata.topic_settings == {"orders": {}}


def test_groups_have_settings_of_their_own_and_the_cluster_levels() -> None:
    def of_group(name: str, value: str | None) -> Message:
        return kinds.ConfigRecord(
            resource_type=kinds.GROUP_RESOURCE, resource_name="g", name=name, value=value
        )

    levels = [kinds.FeatureLevelRecord(name="f", feature_level=level) for level in (1, 2)]

    metadata = replay([of_group("a", "1"), of_group("b", "2"), of_group("a", None), *levels])

    assert metadata.group_settings == {"g": {"b": "2"}}
    assert metadata.feature_levels == {"f": 2}


def test_a_transaction_counts_when_it_ends() -> None:
    begin, other = kinds.BeginTransactionRecord(), kinds.TopicRecord(name="logs", topic_id=LOGS)

    ended = replay([begin, TOPIC, kinds.EndTransactionRecord()])
    aborted = replay([begin, TOPIC, kinds.AbortTransactionRecord(), other])
    open_ = replay([begin, TOPIC])

    assert set(ended.topics) == {ORDERS}
    assert set(aborted.topics) == {LOGS}
    assert not open_.topics


def test_logins_are_kept_and_what_cannot_be_taken_over_is_counted() -> None:
    login = kinds.UserScramCredentialRecord(
        name="u", mechanism=1, salt=b"salt", stored_key=b"key", server_key=b"it", iterations=4096
    )
    entity = [kinds.ClientQuotaRecord.EntityData(entity_type="user", entity_name="u")]
    quota = kinds.ClientQuotaRecord(entity=entity, quota_key="producer_byte_rate", value=1.0)
    no_quota = kinds.ClientQuotaRecord(entity=entity, quota_key="producer_byte_rate", remove=True)
    acl = kinds.AccessControlEntryRecord(id=UUID(int=9))
    broker = kinds.ConfigRecord(resource_type=4, resource_name="1", name="log.retention.ms")
    broker.value = "7"

    token = kinds.DelegationTokenRecord(token_id="t", owner="User:u", requester="User:u")

    there = replay(
        [login, quota, acl, broker, token, kinds.ProducerIdsRecord(next_producer_id=2000)]
    )
    gone = replay(
        [
            login,
            kinds.RemoveUserScramCredentialRecord(name="u", mechanism=1),
            quota,
            no_quota,
            acl,
            kinds.RemoveAccessControlEntryRecord(id=UUID(int=9)),
            token,
            kinds.RemoveDelegationTokenRecord(token_id="t"),
        ]
    )

    assert {name: str(each) for name, each in there.scram_credentials.items()} == {
        ("u", 1): "salt=c2FsdA==,stored_key=a2V5,server_key=aXQ=,iterations=4096"
    }
    assert there.quotas == {(("user", "u"),): {"producer_byte_rate": 1.0}}
    assert (len(there.acls), len(there.tokens)) == (1, 1)
    assert there.other_settings == {(4, "1", "log.retention.ms"): "7"}
    assert there.next_producer_id == 2000
    assert not gone.scram_credentials
    assert not gone.quotas
    assert not gone.acls
    assert not gone.tokens


# ---- files


def test_what_a_real_broker_left_is_read(tmp_path: Path) -> None:
    golden_logs.unpack("4.3.1-clean", tmp_path)
    expected = [r for r in golden_logs.lines("4.3.1-clean", "expected") if r["kind"] == "topic"]

    metadata = read(tmp_path / METADATA_DIRECTORY)

    found = {topic.name: len(topic.leader_epochs) for topic in metadata.topics.values()}
    assert found == {row["topic"]: row["partitions"] for row in expected}
    assert metadata.topic_settings["recode-gzip"]["compression.type"] == "gzip"
    assert metadata.next_producer_id == 2000


def test_the_log_goes_on_behind_the_newest_snapshot(tmp_path: Path) -> None:
    old = tmp_path / f"{2:020d}-{1:010d}.checkpoint"
    old.write_bytes(batch(0, kinds.TopicRecord(name="old", topic_id=LOGS)))
    (tmp_path / f"{5:020d}-{3:010d}.checkpoint").write_bytes(batch(0, TOPIC, PARTITION))
    in_snapshot = batch(3, kinds.TopicRecord(name="old", topic_id=LOGS), PARTITION)
    write_log(tmp_path, 3, in_snapshot, batch(5, setting("retention.ms", "6")))

    metadata = read(tmp_path)

    assert set(metadata.topics) == {ORDERS}
    assert metadata.topic_settings == {"orders": {"retention.ms": "6"}}


def test_a_torn_batch_at_the_end_is_where_the_log_ends(tmp_path: Path) -> None:
    torn = batch(1, kinds.RemoveTopicRecord(topic_id=ORDERS))[:-1]
    write_log(tmp_path, 0, batch(0, TOPIC), torn)

    assert set(read(tmp_path).topics) == {ORDERS}


def test_a_broken_batch_in_an_older_segment_is_not_passed_over(tmp_path: Path) -> None:
    write_log(tmp_path, 0, batch(0, TOPIC)[:-1] + b"x")
    write_log(tmp_path, 1, batch(1, PARTITION))

    with pytest.raises(MetadataUnreadableError, match="broken batch at byte 0"):
        read(tmp_path)


def test_a_hole_in_the_log_is_not_passed_over(tmp_path: Path) -> None:
    write_log(tmp_path, 4, batch(4, TOPIC))

    with pytest.raises(MetadataUnreadableError, match="offset 4, expected 0"):
        read(tmp_path)


def test_records_newer_than_known_are_not_passed_over(tmp_path: Path) -> None:
    newer = build([Record(0, 5, None, framed(TOPIC)[:2] + b"\x07" + framed(TOPIC)[3:])])
    write_log(tmp_path, 0, newer)

    with pytest.raises(MetadataUnreadableError, match="TopicRecord version 7"):
        read(tmp_path)


def test_a_directory_that_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(MetadataUnreadableError):
        read(tmp_path / "missing")
