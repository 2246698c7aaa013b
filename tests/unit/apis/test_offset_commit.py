"""OffsetCommit in all its versions."""

from __future__ import annotations

import uuid
from uuid import UUID

import pytest

from kbroker.coordinator.group.records import read_offset_commit_value
from kbroker.coordinator.runtime.versioned_record import version_of
from kbroker.errors import ErrorCode
from kbroker.features import GROUP_VERSION
from kbroker.model import ZERO_UUID, FinalizedFeatures, TopicPartition
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from kbroker.turns import ENTRIES
from tests.fakes.brokers.consumer_groups import topic
from tests.fakes.brokers.group_broker import TOPIC_ID, GroupBroker
from tests.fakes.brokers.group_caller import GroupCaller
from tests.fakes.running.loop_turns import counting_turns

T0 = TopicPartition("t", 0)


def request(partition: int = 0, name: str = "t", **fields: object) -> OffsetCommitRequest:
    of_partition = {
        key: fields.pop(key)
        for key in ("committed_metadata", "commit_timestamp", "committed_leader_epoch")
        if key in fields
    }
    committed_offset = fields.pop("committed_offset", 42)
    topic_id = fields.pop("topic_id", TOPIC_ID)
    return OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=name,
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequest.OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=committed_offset,
                        **of_partition,
                    )
                ],
            )
        ],
        **fields,
    )


def codes(response: object) -> list[int]:
    return [each.error_code for topic in response.topics for each in topic.partitions]


def stored(call: GroupCaller) -> object:
    return call.broker.groups.store.find("g").group.offsets.committed[T0]


@pytest.mark.parametrize("version", range(1, 11))
def test_commit_is_stored(version: int) -> None:
    call = GroupCaller()

    response = call(request(), version)

    assert codes(response) == [0]
    assert stored(call).offset == 42
    assert stored(call).commit_timestamp_ms == call.broker.time.now_ms()


def test_version_0_is_kept_in_the_tree() -> None:
    call = GroupCaller()

    assert codes(call(request(), 0)) == [0]
    assert call.broker.legacy_offsets.stored == {("g", T0): 42}
    assert call.broker.groups.list_groups([], [])[1] == []


def test_version_0_refuses_too_long_metadata() -> None:
    call = GroupCaller()

    response = call(request(committed_metadata="x" * 4097), 0)

    assert codes(response) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]


def test_missing_topic_and_partition_are_refused_by_themselves() -> None:
    call = GroupCaller()
    both = request()
    both.topics += [request(name="missing").topics[0], request(partition=9).topics[0]]

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(call(both, 7)) == [0, unknown, unknown]
    assert stored(call).offset == 42


@pytest.mark.parametrize("version", [0, 7, 10])
def test_a_partition_named_again_has_the_last_offset_and_each_mention_an_answer(
    version: int,
) -> None:
    call = GroupCaller()
    several = request()
    missing = request(partition=9).topics[0].partitions[0]
    several.topics[0].partitions += [missing, missing]
    several.topics += [request(committed_offset=offset).topics[0] for offset in (43, 44)]

    response = call(several, version)

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [len(topic.partitions) for topic in response.topics] == [3, 1, 1]
    assert codes(response) == [0, unknown, unknown, 0, 0]
    if version == 0:
        assert call.broker.legacy_offsets.stored == {("g", T0): 44}
    else:
        assert stored(call).offset == 44
        assert [len(records) for _, records in call.broker.log().batches()] == [1]


@pytest.mark.parametrize("retention_ms", [2**63 - 1, -(2**63)])
def test_a_retention_beyond_all_times_is_stored_as_far_as_times_go(retention_ms: int) -> None:
    call = GroupCaller()
    wanted = request()
    wanted.retention_time_ms = retention_ms

    assert codes(call(wanted, 2)) == [0]
    assert stored(call).expire_timestamp_ms in (0, 2**63 - 1)


async def test_others_are_answered_while_many_offsets_are_committed() -> None:
    call, count = GroupCaller(), 5_000
    many = request()
    many.topics[0].partitions *= count

    answer, turns = await counting_turns(call.answer(many, 8))

    assert codes(answer) == [0] * count
    assert turns > count // ENTRIES


def test_unknown_topic_id_is_refused() -> None:
    call = GroupCaller()

    response = call(request(topic_id=uuid.UUID(int=99)), 10)

    assert codes(response) == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert response.topics[0].topic_id == uuid.UUID(int=99)


def test_version_1_may_name_the_time_and_version_2_a_retention() -> None:
    call = GroupCaller()
    call(request(commit_timestamp=5), 1)
    timestamp = stored(call).commit_timestamp_ms
    call(request(retention_time_ms=1000), 2)

    assert timestamp == 5
    assert stored(call).expire_timestamp_ms == call.broker.time.now_ms() + 1000


def test_leader_epoch_and_missing_metadata_are_kept() -> None:
    call = GroupCaller()

    call(request(committed_leader_epoch=3, committed_metadata=None), 6)

    assert (stored(call).leader_epoch, stored(call).metadata) == (3, "")


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, 22), (7, 22), (8, 22), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_generation_without_a_group_is_refused(version: int, code: int) -> None:
    response = GroupCaller()(request(generation_id_or_member_epoch=5), version)

    assert codes(response) == [code]


def test_from_level_1_of_group_version_on_offsets_are_stored_with_the_ids_of_their_topics() -> None:
    broker = GroupBroker()
    call = GroupCaller(broker)
    for level, offset in ((0, 7), (1, 8), (0, 9), (1, 10)):
        broker.metadata.finalized_features = FinalizedFeatures({GROUP_VERSION: level}, 1)
        call(request(committed_offset=offset), 7)

    [log] = broker.replicas.logs.values()
    values = [record.value for _, batch in log.batches() for record in batch]
    assert [version_of(value) for value in values] == [3, 4, 3, 4]
    ids = [read_offset_commit_value(value, 0).topic_id for value in values]
    assert ids == [ZERO_UUID, TOPIC_ID, ZERO_UUID, TOPIC_ID]
    found = broker.restarted().groups.store.find("g").offsets.committed
    assert [(each.offset, each.topic_id) for each in found.values()] == [(10, TOPIC_ID)]


def test_an_offset_of_a_topic_that_had_the_name_before_is_read_by_its_name_alone() -> None:
    call = GroupCaller()
    metadata = call.broker.metadata
    metadata.finalized_features = FinalizedFeatures({GROUP_VERSION: 1}, 1)
    call(request(committed_offset=7), 7)
    other_id = UUID(int=99)
    metadata.update(topic("t", other_id, 4))

    def read(version: int, topic_id: UUID) -> list[int]:
        asked = OffsetFetchRequest.OffsetFetchRequestTopics(
            name="t", topic_id=topic_id, partition_indexes=[0]
        )
        group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=[asked])
        [answer] = call(OffsetFetchRequest(groups=[group]), version).groups
        return [row.committed_offset for each in answer.topics for row in each.partitions]

    assert read(9, other_id) == [7]
    assert read(10, other_id) == [-1]
