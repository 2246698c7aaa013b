"""What a client without a right is answered, by kind of resource, and what others of the same
request are answered beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kbroker.acl.acl import (
    CLUSTER,
    SUPPORTED_OPERATIONS,
    AclOperation,
    AclResource,
    AclResourceType,
)
from kbroker.apis import large_answers
from kbroker.apis.authorization import guarded
from kbroker.apis.authorizer import operation_bits
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import registered
from kbroker.errors import ErrorCode
from kbroker.model import ZERO_UUID
from kbroker.protocol.messages.alter_configs import AlterConfigsRequest
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.delete_records import DeleteRecordsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.describe_cluster import DescribeClusterRequest
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kbroker.protocol.messages.elect_leaders import ElectLeadersRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest
from kbroker.protocol.messages.leave_group import LeaveGroupRequest
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from kbroker.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.messages.sync_group import SyncGroupRequest
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.protocol.request import NoResponse
from kbroker.protocol.schema import Message, response_class
from kbroker.record.record_batch import TRANSACTIONAL_BIT
from tests.fakes.brokers.group_caller import GroupCaller
from tests.fakes.clusters.replication_cluster import batch, topic_id_of
from tests.fakes.requests.admin_context import AdminClient
from tests.fakes.requests.denying_authorizer import (
    DenyingAuthorizer,
    answer_to,
    ask,
    services_without,
)

OPEN, SECRET = "open", "secret"
TOPIC_29, GROUP_30, CLUSTER_31, TRANSACTIONAL_ID_53 = 29, 30, 31, 53
Denied = tuple[AclOperation, AclResource]


def topic(operation: AclOperation, name: str = SECRET) -> Denied:
    return operation, AclResource(AclResourceType.TOPIC, name)


def group(operation: AclOperation, name: str = SECRET) -> Denied:
    return operation, AclResource(AclResourceType.GROUP, name)


@pytest.fixture
def answer_of(cluster: Any, call: Any) -> Callable[..., Any]:
    """Asks a broker that leads two topics, without some rights."""
    cluster.append(cluster.lead(OPEN), b"v")
    cluster.append(cluster.lead(SECRET), b"v")

    def asked(request: Message, version: int, *denied: Denied, answer: Any = ask) -> Any:
        services = services_without(call.services, *denied)
        return cluster.loop.run_until_complete(answer(services, request, version))

    return asked


def produce(acks: int = 1, transactional_id: str | None = None) -> ProduceRequest:
    """With a transactional id, records of its transaction."""
    flags = 0 if transactional_id is None else TRANSACTIONAL_BIT
    return ProduceRequest(
        acks=acks,
        transactional_id=transactional_id,
        timeout_ms=1000,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=name,
                topic_id=topic_id_of(name),
                partition_data=[
                    ProduceRequest.PartitionProduceData(index=0, records=batch(flags=flags))
                ],
            )
            for name in (SECRET, OPEN)
        ],
    )


def fetch(*names: str, **values: Any) -> FetchRequest:
    return FetchRequest(
        max_bytes=1 << 20,
        topics=[
            FetchRequest.FetchTopic(
                topic=name,
                topic_id=topic_id_of(name),
                partitions=[FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 20)],
            )
            for name in names
        ],
        **values,
    )


def metadata(*names: str, create: bool = False) -> MetadataRequest:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics or None, allow_auto_topic_creation=create)


def codes(response: Any) -> dict[str, int]:
    return {found.name: found.error_code for found in response.topics}


# Topics


@pytest.mark.parametrize("version", [3, 9, 13])
def test_produce_stores_what_it_may_and_refuses_the_rest_by_topic(
    answer_of: Any, version: int
) -> None:
    response = answer_of(produce(), version, topic(AclOperation.WRITE))

    by_topic = {
        found.name or found.topic_id: found.partition_responses[0] for found in response.responses
    }
    names = (OPEN, SECRET) if version < 13 else (topic_id_of(OPEN), topic_id_of(SECRET))
    assert [by_topic[name].error_code for name in names] == [0, TOPIC_29]
    assert [by_topic[name].base_offset for name in names] == [1, -1]


def test_produce_without_an_answer_closes_where_a_topic_is_refused(answer_of: Any) -> None:
    denied = topic(AclOperation.WRITE)

    assert answer_of(produce(acks=0), 9, denied, answer=answer_to) == NoResponse(close=True)


def test_produce_of_a_transaction_needs_its_id(answer_of: Any) -> None:
    denied = AclOperation.WRITE, AclResource(AclResourceType.TRANSACTIONAL_ID, "tx")
    response = answer_of(produce(transactional_id="tx"), 9, denied)

    found = {row.error_code for topic in response.responses for row in topic.partition_responses}
    assert found == {TRANSACTIONAL_ID_53}


@pytest.mark.parametrize("version", [0, 4, 12, 13, 18])
def test_fetch_reads_what_it_may_and_refuses_the_rest_by_partition(
    answer_of: Any, version: int
) -> None:
    response = answer_of(fetch(SECRET, OPEN), version, topic(AclOperation.READ))

    rows = [found.partitions[0] for found in response.responses]
    assert [row.error_code for row in rows] == [TOPIC_29, 0]
    assert [bool(row.records) for row in rows] == [False, True]


def test_a_fetch_session_reads_what_is_granted_later(answer_of: Any) -> None:
    first = answer_of(fetch(SECRET, session_epoch=0), 12, topic(AclOperation.READ))
    second = answer_of(fetch(session_id=first.session_id, session_epoch=1), 12)

    assert first.responses[0].partitions[0].error_code == TOPIC_29
    assert second.responses[0].partitions[0].error_code == 0
    assert second.responses[0].partitions[0].records


def test_metadata_names_what_was_asked_for_and_says_no_more(answer_of: Any) -> None:
    response = answer_of(metadata(SECRET, OPEN, "none"), 9, topic(AclOperation.DESCRIBE))

    assert codes(response) == {SECRET: TOPIC_29, OPEN: 0, "none": 3}
    (hidden,) = [found for found in response.topics if found.name == SECRET]
    assert (hidden.partitions, hidden.topic_id) == ([], ZERO_UUID)


def test_metadata_does_not_tell_a_topic_that_exists_from_one_that_does_not(answer_of: Any) -> None:
    denied = [topic(AclOperation.DESCRIBE, name) for name in (SECRET, "none")]
    response = answer_of(metadata(SECRET, "none", create=True), 9, *denied)

    assert codes(response) == {SECRET: TOPIC_29, "none": TOPIC_29}


def test_metadata_of_all_topics_leaves_out_what_may_not_be_seen(answer_of: Any) -> None:
    assert codes(answer_of(metadata(), 9, topic(AclOperation.DESCRIBE))) == {OPEN: 0}


def test_metadata_by_id_hides_the_name(answer_of: Any) -> None:
    asked = MetadataRequest.MetadataRequestTopic(name=None, topic_id=topic_id_of(SECRET))
    response = answer_of(MetadataRequest(topics=[asked]), 12, topic(AclOperation.DESCRIBE))

    (found,) = response.topics
    assert (found.error_code, found.name) == (TOPIC_29, None)
    assert found.topic_id == topic_id_of(SECRET)


def test_metadata_creates_only_what_the_client_may_create(answer_of: Any, call: Any) -> None:
    denied = [(AclOperation.CREATE, CLUSTER), topic(AclOperation.CREATE, "b")]
    response = answer_of(metadata("a", "b", create=True), 9, *denied)

    assert codes(response) == {"a": 0, "b": TOPIC_29}
    assert call.topics.asked == ["a"]


def test_metadata_lists_the_operations_that_are_authorized(answer_of: Any) -> None:
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=SECRET)],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    response = answer_of(request, 8, topic(AclOperation.WRITE), (AclOperation.DESCRIBE, CLUSTER))

    left = SUPPORTED_OPERATIONS[AclResourceType.TOPIC] - {AclOperation.WRITE}
    assert response.topics[0].topic_authorized_operations == operation_bits(left)
    assert response.cluster_authorized_operations == 0


LIST_OFFSETS = ListOffsetsRequest(
    replica_id=-1,
    topics=[
        ListOffsetsRequest.ListOffsetsTopic(
            name=name,
            partitions=[ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)],
        )
        for name in (SECRET, OPEN)
    ],
)
EPOCHS = OffsetForLeaderEpochRequest(
    topics=[
        OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
            topic=name,
            partitions=[OffsetForLeaderEpochRequest.OffsetForLeaderPartition(leader_epoch=0)],
        )
        for name in (SECRET, OPEN)
    ]
)
DELETE_RECORDS = DeleteRecordsRequest(
    timeout_ms=1000,
    topics=[
        DeleteRecordsRequest.DeleteRecordsTopic(
            name=name,
            partitions=[DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=1)],
        )
        for name in (SECRET, OPEN)
    ],
)


@pytest.mark.parametrize(
    ("request_", "version", "denied"),
    [
        (LIST_OFFSETS, 0, [topic(AclOperation.DESCRIBE)]),
        (LIST_OFFSETS, 7, [topic(AclOperation.DESCRIBE)]),
        (EPOCHS, 4, [topic(AclOperation.DESCRIBE), (AclOperation.CLUSTER_ACTION, CLUSTER)]),
        (DELETE_RECORDS, 2, [topic(AclOperation.DELETE)]),
    ],
)
def test_a_topic_is_refused_by_itself(
    answer_of: Any, request_: Any, version: int, denied: list[Denied]
) -> None:
    response = answer_of(request_, version, *denied)

    found = {
        getattr(answered, "name", None) or answered.topic: answered.partitions[0].error_code
        for answered in response.topics
    }
    assert found == {OPEN: 0, SECRET: TOPIC_29}


def test_cluster_action_stands_for_the_right_to_see_leader_epochs(answer_of: Any) -> None:
    response = answer_of(EPOCHS, 4, topic(AclOperation.DESCRIBE))

    assert [found.partitions[0].error_code for found in response.topics] == [0, 0]


# The cluster


def test_the_directories_are_described_to_whom_may_describe_the_cluster(answer_of: Any) -> None:
    response = answer_of(DescribeLogDirsRequest(topics=None), 3, (AclOperation.DESCRIBE, CLUSTER))

    assert (response.error_code, response.results) == (CLUSTER_31, [])


def test_describe_cluster_is_answered_without_operations(answer_of: Any) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    full = operation_bits(SUPPORTED_OPERATIONS[AclResourceType.CLUSTER])

    assert answer_of(request, 0).cluster_authorized_operations == full == 8096
    refused = answer_of(request, 0, (AclOperation.DESCRIBE, CLUSTER))
    assert (refused.error_code, refused.cluster_authorized_operations) == (0, 0)


def test_elections_are_refused_for_every_partition(answer_of: Any) -> None:
    asked = ElectLeadersRequest.TopicPartitions(topic=OPEN, partitions=[0])
    request = ElectLeadersRequest(topic_partitions=[asked], timeout_ms=1000)
    response = answer_of(request, 1, (AclOperation.ALTER, CLUSTER))

    assert response.error_code == CLUSTER_31


async def test_orders_are_refused_without_cluster_action(client: AdminClient) -> None:
    services = services_without(client.services, (AclOperation.CLUSTER_ACTION, CLUSTER))
    response = await ask(services, UpdateMetadataRequest(), 5)
    assert response.error_code == CLUSTER_31


@pytest.mark.parametrize(("may_write_a_topic", "code"), [(True, 0), (False, CLUSTER_31)])
async def test_producer_ids_are_for_writers(
    may_write_a_topic: bool, code: int, client: AdminClient
) -> None:
    authorizer = DenyingAuthorizer((AclOperation.IDEMPOTENT_WRITE, CLUSTER))
    authorizer.writers = may_write_a_topic
    services = replace(client.services, authorizer=authorizer)
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    assert (await ask(services, request, 4)).error_code == code


async def test_a_transactional_id_has_its_own_refusal(client: AdminClient) -> None:
    denied = AclOperation.WRITE, AclResource(AclResourceType.TRANSACTIONAL_ID, "tx")
    request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000)
    response = await ask(services_without(client.services, denied), request, 4)
    assert (response.error_code, response.producer_id) == (TRANSACTIONAL_ID_53, -1)


# Administration


def create_topics(*names: str) -> CreateTopicsRequest:
    topics = [
        CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=1000)


async def test_topics_are_created_by_whom_may_create_them(client: AdminClient) -> None:
    nowhere = (AclOperation.CREATE, CLUSTER)
    denied = [topic(AclOperation.CREATE), topic(AclOperation.DESCRIBE_CONFIGS, OPEN)]
    services = services_without(client.services, nowhere, *denied)
    response = await ask(services, create_topics(SECRET, OPEN), 7)
    assert codes(response) == {SECRET: TOPIC_29, OPEN: 0}
    by_name = {found.name: found for found in response.topics}
    assert by_name[SECRET].error_message == "Authorization failed."
    assert by_name[OPEN].topic_config_error_code == TOPIC_29
    assert (by_name[OPEN].num_partitions, by_name[OPEN].configs) == (-1, [])
    assert not client.broker.metadata.contains_topic(SECRET)


async def test_whom_the_cluster_lets_create_need_not_be_let_by_topics(client: AdminClient) -> None:
    services = services_without(client.services, topic(AclOperation.CREATE))
    assert codes(await ask(services, create_topics(SECRET), 7)) == {SECRET: 0}


@pytest.mark.parametrize("version", [1, 5, 6])
async def test_topics_are_deleted_by_whom_may_delete_them(
    version: int, client: AdminClient
) -> None:
    await ask(client.services, create_topics(SECRET, OPEN), 7)
    states = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in (SECRET, OPEN)]
    request = DeleteTopicsRequest(topics=states, topic_names=[SECRET, OPEN], timeout_ms=1000)
    services = services_without(client.services, topic(AclOperation.DELETE))
    response = await ask(services, request, version)
    found = {row.name: row.error_code for row in response.responses}
    assert found == {SECRET: TOPIC_29, OPEN: 0}
    assert client.broker.metadata.contains_topic(SECRET)


async def test_a_topic_that_is_to_be_deleted_by_id_keeps_its_name_hidden(
    client: AdminClient,
) -> None:
    await ask(client.services, create_topics(SECRET), 7)
    topic_id = client.broker.metadata.topic_id(SECRET)
    state = DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=topic_id)
    services = services_without(client.services, topic(AclOperation.DESCRIBE))
    request = DeleteTopicsRequest(topics=[state], timeout_ms=1000)
    (row,) = (await ask(services, request, 6)).responses
    assert (row.error_code, row.name, row.topic_id) == (TOPIC_29, None, topic_id)


async def test_partitions_are_added_by_whom_may_alter_the_topic(client: AdminClient) -> None:
    await ask(client.services, create_topics(SECRET, OPEN), 7)
    more = [
        CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=2, assignments=None)
        for name in (SECRET, OPEN)
    ]
    services = services_without(client.services, topic(AclOperation.ALTER))
    request = CreatePartitionsRequest(topics=more, timeout_ms=1000)
    response = await ask(services, request, 1)
    found = {row.name: row.error_code for row in response.results}
    assert found == {SECRET: TOPIC_29, OPEN: 0}


async def test_settings_are_refused_by_what_they_belong_to(client: AdminClient) -> None:
    await ask(client.services, create_topics(SECRET, OPEN), 7)
    asked = [
        DescribeConfigsRequest.DescribeConfigsResource(resource_type=kind, resource_name=name)
        for kind, name in ((2, SECRET), (2, OPEN), (4, "0"))
    ]
    services = services_without(
        client.services,
        topic(AclOperation.DESCRIBE_CONFIGS),
        (AclOperation.DESCRIBE_CONFIGS, CLUSTER),
    )
    response = await ask(services, DescribeConfigsRequest(resources=asked), 1)
    found = {row.resource_name: (row.error_code, row.error_message) for row in response.results}
    assert found == {
        SECRET: (TOPIC_29, "Topic authorization failed."),
        OPEN: (0, ""),
        "0": (CLUSTER_31, "Cluster authorization failed."),
    }


async def test_settings_are_altered_by_whom_may_alter_them(client: AdminClient) -> None:
    await ask(client.services, create_topics(SECRET), 7)
    asked = AlterConfigsRequest.AlterConfigsResource(
        resource_type=2,
        resource_name=SECRET,
        configs=[AlterConfigsRequest.AlterableConfig(name="retention.ms", value="1000")],
    )
    services = services_without(client.services, topic(AclOperation.ALTER_CONFIGS))
    response = await ask(services, AlterConfigsRequest(resources=[asked]), 1)
    assert [row.error_code for row in response.responses] == [TOPIC_29]
    assert await client.broker.configs.topic_overrides(SECRET) == {}


# Groups


@pytest.mark.parametrize("request_", [
    JoinGroupRequest(group_id=SECRET), SyncGroupRequest(group_id=SECRET),
    HeartbeatRequest(group_id=SECRET), LeaveGroupRequest(group_id=SECRET),
])  # fmt: skip
def test_members_need_to_read_the_group(request_: Any) -> None:
    call = GroupCaller()
    call.services = services_without(call.services, group(AclOperation.READ))
    versions = range(request_.spec.served.highest + 1)

    found = {call.through_stages(request_, version).error_code for version in versions}

    assert found == {GROUP_30}


def offset_commit(*names: str) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequest.OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=5
                    )
                ],
            )
            for name in names
        ],
    )


def test_a_commit_stores_what_it_may_and_refuses_the_rest_by_topic() -> None:
    call = GroupCaller()
    call.services = services_without(call.services, topic(AclOperation.READ))

    response = call.through_stages(offset_commit(SECRET, "t"), 7)

    found = {answered.name: answered.partitions[0].error_code for answered in response.topics}
    assert found == {SECRET: TOPIC_29, "t": 0}


def test_a_commit_to_a_group_that_may_not_be_read_is_refused_in_all_its_partitions() -> None:
    call = GroupCaller()
    call.services = services_without(call.services, group(AclOperation.READ, "g"))

    response = call.through_stages(offset_commit("t", "u"), 7)

    assert [t.partitions[0].error_code for t in response.topics] == [GROUP_30, GROUP_30]


def test_committed_offsets_are_shown_of_topics_that_may_be_seen() -> None:
    call = GroupCaller()
    call(offset_commit("t"), 7)
    topics = [
        OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=[0])
        for name in ("t", "u")
    ]
    call.services = services_without(call.services, topic(AclOperation.DESCRIBE, "t"))

    named = call.through_stages(OffsetFetchRequest(group_id="g", topics=topics), 5)
    of_all = call.through_stages(OffsetFetchRequest(group_id="g", topics=None), 5)

    rows = {found.name: found.partitions[0] for found in named.topics}
    assert (rows["t"].error_code, rows["t"].committed_offset) == (TOPIC_29, -1)
    assert (rows["u"].error_code, of_all.topics) == (0, [])


def test_offsets_of_several_groups_are_refused_by_group() -> None:
    call = GroupCaller()
    groups = [
        OffsetFetchRequest.OffsetFetchRequestGroup(group_id=name, topics=[])
        for name in ("g", SECRET)
    ]
    call.services = services_without(call.services, group(AclOperation.DESCRIBE))

    response = call.through_stages(OffsetFetchRequest(groups=groups), 8)

    found = {each.group_id: each.error_code for each in response.groups}
    assert found == {"g": 0, SECRET: GROUP_30}


def test_groups_are_described_deleted_and_found_one_by_one() -> None:
    call = GroupCaller()
    call.services = services_without(
        call.services, group(AclOperation.DESCRIBE), group(AclOperation.DELETE)
    )

    described = call.through_stages(DescribeGroupsRequest(groups=[SECRET, "g"]), 5)
    deleted = call.through_stages(DeleteGroupsRequest(groups_names=[SECRET, "g"]), 2)
    found = call.through_stages(FindCoordinatorRequest(coordinator_keys=[SECRET, "g"]), 4)
    alone = call.through_stages(FindCoordinatorRequest(key=SECRET), 1)

    assert {row.group_id: row.error_code for row in described.groups} == {SECRET: 30, "g": 0}
    assert {row.group_id: row.error_code for row in deleted.results} == {SECRET: 30, "g": 69}
    texts = {row.key: (row.error_code, row.error_message) for row in found.coordinators}
    assert texts[SECRET] == (GROUP_30, "")
    assert (alone.error_code, alone.node_id) == (GROUP_30, -1)
    assert alone.error_message == "Group authorization failed."


def test_groups_that_may_not_be_seen_are_not_listed() -> None:
    call = GroupCaller()
    call(offset_commit("t"), 7)
    hidden = group(AclOperation.DESCRIBE, "g")

    assert [row.group_id for row in call.through_stages(ListGroupsRequest(), 4).groups] == ["g"]
    call.services = services_without(call.services, hidden)
    assert len(call.through_stages(ListGroupsRequest(), 4).groups) == 1  # the cluster says it
    call.services = services_without(call.services, hidden, (AclOperation.DESCRIBE, CLUSTER))
    assert call.through_stages(ListGroupsRequest(), 4).groups == []


# All


def test_every_api_says_what_it_needs() -> None:
    without = {api.name for api in registered().values() if not api.needs}

    refused_to_all = {"ShareGroupHeartbeat"}
    by_owners_and_renewers = {"RenewDelegationToken", "ExpireDelegationToken"}
    logins = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}
    assert without == logins | refused_to_all | by_owners_and_renewers


def test_refusals_have_kafkas_codes() -> None:
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED == TOPIC_29
    assert ErrorCode.GROUP_AUTHORIZATION_FAILED == GROUP_30
    assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED == CLUSTER_31
    assert ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED == TRANSACTIONAL_ID_53


@pytest.mark.parametrize("request_", [
    DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(topic_id=topic_id_of("new"))]),
    ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(topic_id=topic_id_of("new"))]),
], ids=["DeleteTopics", "Produce"])  # fmt: skip
def test_an_id_that_is_not_known_when_rights_are_looked_at_comes_to_no_handler(
    call: Any, request_: Any
) -> None:
    api = registered()[request_.spec.key]
    came: list[Message] = []

    def handler(_ctx: Any, request: Any) -> Any:
        came.extend(getattr(request, "topic_data", None) or getattr(request, "topics", ()))
        return response_class(type(request))()

    call.services = services_without(call.services)
    response = call(guarded(api.needs, handler), request_, api.versions.highest)

    assert [answer.topic_id for answer in response.responses] == [topic_id_of("new")]
    assert came == []


def test_metadata_hides_a_topic_that_comes_while_its_id_waits_for_the_answer(
    cluster: Any, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_answers, "SMALL_BYTES", -1)
    take = RequestContext.take

    async def take_and_hear(ctx: RequestContext, size_bytes: int) -> Any:
        cluster.hear_of(SECRET)
        return await take(ctx, size_bytes)

    monkeypatch.setattr(RequestContext, "take", take_and_hear)
    asked = MetadataRequest.MetadataRequestTopic(name=None, topic_id=topic_id_of(SECRET))
    services = services_without(call.services, topic(AclOperation.DESCRIBE))

    response = cluster.loop.run_until_complete(ask(services, MetadataRequest(topics=[asked]), 12))

    assert [(found.name, found.error_code) for found in response.topics] == [(None, TOPIC_29)]
