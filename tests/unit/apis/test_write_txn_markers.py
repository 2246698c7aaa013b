from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.acl.acl import CLUSTER, AclOperation
from kbroker.apis import write_txn_markers
from kbroker.coordinator.transaction.producer import Producer
from kbroker.errors import ErrorCode
from kbroker.model import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kbroker.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kbroker.record.record_batch import ControlRecord, read_control, read_header, records
from tests.fakes.clusters.peers import peers_over
from tests.fakes.clusters.replication_cluster import ReplicationCluster
from tests.fakes.requests.api_context import MARKER_TIMEOUT_MS, ApiCaller
from tests.fakes.requests.denying_authorizer import ask, services_without
from tests.fakes.requests.received_answers import received

VERSIONS = [0, 1]
NONE = ErrorCode.NONE
NOTHING: Any = None

Marker = WriteTxnMarkersRequest.WritableTxnMarker
Topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic


@pytest.fixture
def call(cluster: ReplicationCluster) -> ApiCaller:
    """As a broker, on the listener where brokers speak; coordinators have epoch 3."""
    cluster.hear_of(TRANSACTION_STATE_TOPIC, leader_epoch=3)
    return ApiCaller(cluster, peers=peers_over(NOTHING, cluster.time, "PLAINTEXT"))


def marker(topics: dict[str, list[int]], producer_id: int = 5, **fields: Any) -> Marker:
    named = [Topic(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
    values = {"producer_epoch": 2, "transaction_result": True, "coordinator_epoch": 3, **fields}
    return Marker(producer_id=producer_id, topics=named, **values)


def request(*markers: Marker) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(markers=list(markers))


def codes(response: WriteTxnMarkersResponse) -> list[tuple[int, dict[str, dict[int, int]]]]:
    return [
        (
            each.producer_id,
            {t.name: {p.partition_index: p.error_code for p in t.partitions} for t in each.topics},
        )
        for each in response.markers
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_marker_is_one_control_batch_in_each_partition(
    version: int, cluster: ReplicationCluster, call: ApiCaller
) -> None:
    logs = [cluster.lead("t", 0).log, cluster.lead("t", 1).log, cluster.lead("u").log]
    asked = request(marker({"t": [1, 0, 1], "u": [0]}))

    answer = call(write_txn_markers.handle, asked, version)

    assert codes(answer) == [(5, {"t": {1: 0, 0: 0}, "u": {0: 0}})]
    for log in logs:
        ((_, _, batch),) = log.batches
        header = read_header(batch)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 2, -1)
        assert header.is_control
        assert header.max_timestamp == cluster.time.now_ms()
        assert [read_control(record) for record in records(batch)] == [ControlRecord(True, 3)]


def test_markers_of_several_producers_are_answered_by_producer(
    cluster: ReplicationCluster, call: ApiCaller
) -> None:
    log = cluster.lead("t").log
    asked = request(
        marker({"t": [0]}, 5),
        marker({"t": [0]}, 6, transaction_result=False),
        marker({"u": [0]}, 5),
    )

    answer = call(write_txn_markers.handle, asked, 1)

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(answer) == [(5, {"t": {0: 0}, "u": {0: unknown}}), (6, {"t": {0: 0}})]
    written = [read_control(next(records(batch))) for _, _, batch in log.batches]
    assert written == [ControlRecord(True, 3), ControlRecord(False, 3)]


def test_many_markers_do_not_hold_up_others(cluster: ReplicationCluster, call: ApiCaller) -> None:
    log = cluster.lead("t").log
    asked = request(*[marker({"t": [0]})] * 500)

    answer = cluster.loop.create_task(call.start(write_txn_markers.handle, asked, 1))
    cluster.run_callbacks()

    assert not answer.done()
    cluster.loop.run_until_complete(answer)
    assert len(log.batches) == 500


def test_a_marker_of_many_partitions_does_not_hold_up_others(
    cluster: ReplicationCluster, call: ApiCaller
) -> None:
    cluster.lead("t", 1)
    asked = request(marker({"t": [*range(1_000), 1]}))

    answer = cluster.loop.create_task(call.start(write_txn_markers.handle, asked, 1))
    cluster.run_callbacks()

    assert not answer.done()
    (topic,) = received(cluster.loop.run_until_complete(answer), 1).markers[0].topics
    codes = {each.partition_index: each.error_code for each in topic.partitions}
    assert codes == {index: 0 if index == 1 else 3 for index in range(1_000)}
    assert len(topic.partitions) == 1_000


def test_a_large_answer_says_what_small_ones_say(
    cluster: ReplicationCluster, call: ApiCaller
) -> None:
    cluster.lead("t", 1)
    markers = [
        marker({"t": [*range(3_000)], "u": [0, 1], "v": [*range(300)]}, producer_id=5),
        marker({}, producer_id=6),
        marker({"t": [1]}, producer_id=7),
    ]

    answer = cluster.loop.run_until_complete(
        call.start(write_txn_markers.handle, request(*markers), 1)
    )

    small = [
        {"t": {n: 0 if n == 1 else 3 for n in range(3_000)}, "u": {0: 3, 1: 3}},
        {},
        {"t": {1: 0}},
    ]
    small[0]["v"] = dict.fromkeys(range(300), 3)
    assert codes(received(answer, 1)) == list(zip([5, 6, 7], small, strict=True))


def test_a_request_without_markers_has_an_answer(
    cluster: ReplicationCluster, call: ApiCaller
) -> None:
    assert call(write_txn_markers.handle, request(), 1).markers == []


def test_what_is_not_led_here_is_refused_by_itself(
    cluster: ReplicationCluster, call: ApiCaller
) -> None:
    cluster.lead("t", 0)
    cluster.lead("t", 1, leader=1, isr=(0, 1), replicas=(0, 1))
    cluster.hear_of("t", 2, leader=1, isr=(1,), replicas=(1,))
    cluster.lead("old").log.config.message_format = 1

    answer = call(write_txn_markers.handle, request(marker({"t": [0, 1, 2, 9], "old": [0]})), 1)

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # of replicas that this broker lacks, too
    of_t = {0: NONE, 1: ErrorCode.NOT_LEADER_OR_FOLLOWER, 2: unknown, 9: unknown}
    of_old = {0: ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT}
    assert codes(answer) == [(5, {"t": of_t, "old": of_old})]


def test_it_is_answered_when_followers_have_it(
    cluster: ReplicationCluster, call: ApiCaller
) -> None:
    partition = cluster.lead("t", isr=(0, 1), replicas=(0, 1))
    answer = call.start(write_txn_markers.handle, request(marker({"t": [0]})), 1)
    waiting = cluster.loop.create_task(answer)
    cluster.run_callbacks()
    assert not waiting.done()

    partition.follower_fetched(1, 1, 0, cluster.time.now_ms())
    cluster.replicas.waiting.wake(partition.topic_partition)

    assert codes(cluster.loop.run_until_complete(waiting)) == [(5, {"t": {0: 0}})]


def test_followers_that_take_too_long_are_told_of(
    cluster: ReplicationCluster, call: ApiCaller
) -> None:
    cluster.lead("t", isr=(0, 1), replicas=(0, 1))
    answer = call.start(write_txn_markers.handle, request(marker({"t": [0]})), 1)
    waiting = cluster.loop.create_task(answer)
    cluster.run_callbacks()

    cluster.time.advance(MARKER_TIMEOUT_MS)

    told = codes(cluster.loop.run_until_complete(waiting))
    assert told == [(5, {"t": {0: ErrorCode.REQUEST_TIMED_OUT}})]


def test_too_few_replicas_write_nothing(cluster: ReplicationCluster, call: ApiCaller) -> None:
    partition = cluster.lead("t", isr=(0,), replicas=(0, 1))
    partition.log.config.min_insync_replicas = 2

    answer = call(write_txn_markers.handle, request(marker({"t": [0]})), 1)

    assert codes(answer) == [(5, {"t": {0: ErrorCode.NOT_ENOUGH_REPLICAS}})]
    assert partition.log.batches == []


def test_the_group_coordinator_writes_those_of_its_partitions(
    cluster: ReplicationCluster, call: ApiCaller
) -> None:
    log = cluster.lead(GROUP_METADATA_TOPIC, 1).log

    asked = request(marker({GROUP_METADATA_TOPIC: [0, 1]}, transaction_result=False))
    answer = call(write_txn_markers.handle, asked, 1)

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(answer) == [(5, {GROUP_METADATA_TOPIC: {0: unknown, 1: 0}})]
    assert call.ended == [(1, Producer(5, 2), ControlRecord(False, 3))]
    assert log.batches == []


@pytest.mark.parametrize("nobody", [{"producer_id": -1}, {"producer_epoch": -1}])
def test_the_marker_of_nobody_is_not_written(
    nobody: dict[str, int], cluster: ReplicationCluster, call: ApiCaller
) -> None:
    log = cluster.lead("t").log

    answer = call(write_txn_markers.handle, request(marker({"t": [0]}, **nobody)), 1)

    (partition,) = answer.markers[0].topics[0].partitions
    assert partition.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert log.batches == []


@pytest.mark.parametrize(("is_commit", "code"), [(False, 0), (True, 31)])
@pytest.mark.parametrize("version", VERSIONS)
def test_where_no_broker_speaks_transactions_are_only_aborted(
    version: int, is_commit: bool, code: int, cluster: ReplicationCluster
) -> None:
    log = cluster.lead("t").log
    services = ApiCaller(cluster).services
    asked = request(marker({"t": [0]}, transaction_result=is_commit, coordinator_epoch=0))

    answer = cluster.loop.run_until_complete(ask(services, asked, version))

    assert codes(answer) == [(5, {"t": {0: code}})]
    assert len(log.batches) == (not is_commit)


@pytest.mark.parametrize(
    ("latest", "coordinator_epoch", "code"),
    [(None, -1, 0), (None, 0, 0), (None, 1, 42), (3, 3, 0), (3, 4, 42), (3, 2**31 - 1, 42)],
)
def test_a_client_names_no_epoch_that_no_coordinator_has_had(
    latest: int | None, coordinator_epoch: int, code: int, cluster: ReplicationCluster
) -> None:
    log = cluster.lead("t").log
    if latest is not None:
        cluster.hear_of(TRANSACTION_STATE_TOPIC, 1, leader_epoch=latest)
    services = ApiCaller(cluster).services
    asked = request(
        marker({"t": [0]}, transaction_result=False, coordinator_epoch=coordinator_epoch)
    )

    answer = cluster.loop.run_until_complete(ask(services, asked, 1))

    assert codes(answer) == [(5, {"t": {0: code}})]
    assert len(log.batches) == (not code)


def test_an_epoch_that_the_partition_has_seen_is_taken_whoever_leads_now(
    cluster: ReplicationCluster,
) -> None:
    log = cluster.lead("t").log
    log.producer_state.producers[5] = SimpleNamespace(coordinator_epoch=7)
    call = ApiCaller(cluster)

    def asked(coordinator_epoch: int) -> Any:
        fields = {"transaction_result": False, "coordinator_epoch": coordinator_epoch}
        return codes(call(write_txn_markers.handle, request(marker({"t": [0]}, **fields)), 1))

    assert asked(8) == [(5, {"t": {0: ErrorCode.INVALID_REQUEST}})]
    assert asked(7) == [(5, {"t": {0: NONE}})]


def test_a_broker_that_knows_of_a_later_coordinator_comes_again(
    cluster: ReplicationCluster, call: ApiCaller
) -> None:
    log = cluster.lead("t").log
    asked = request(marker({"t": [0]}, coordinator_epoch=4))

    early = call(write_txn_markers.handle, asked, 1)
    cluster.hear_of(TRANSACTION_STATE_TOPIC, leader_epoch=4)
    later = call(write_txn_markers.handle, asked, 1)

    assert codes(early) == [(5, {"t": {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}})]
    assert codes(later) == [(5, {"t": {0: NONE}})]
    assert len(log.batches) == 1


ALTER, CLUSTER_ACTION = (AclOperation.ALTER, CLUSTER), (AclOperation.CLUSTER_ACTION, CLUSTER)


@pytest.mark.parametrize(
    ("denied", "code"), [([ALTER], 0), ([CLUSTER_ACTION], 0), ([ALTER, CLUSTER_ACTION], 31)]
)
def test_a_principal_needs_one_of_two_operations_on_the_cluster(
    denied: list[Any], code: int, cluster: ReplicationCluster, call: ApiCaller
) -> None:
    cluster.lead("t")
    services = services_without(call.services, *denied)

    asked = request(marker({"t": [0]}))
    answer = cluster.loop.run_until_complete(ask(services, asked, 1))

    assert codes(answer) == [(5, {"t": {0: code}})]
