from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from kbroker.apis.fetch import handle
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.registry import registered
from kbroker.errors import ErrorCode, KafkaError
from kbroker.memory_room import MemoryRoom
from kbroker.model import ZERO_UUID
from kbroker.network.request_channel import RequestChannel
from kbroker.network.request_handler_pool import KafkaRequestHandlerPool
from kbroker.protocol.codec import encode
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.request import Coming
from kbroker.record.legacy_record import read_any_header
from kbroker.zk import zk_paths
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from tests.fakes.clusters.peers import peers_over
from tests.fakes.clusters.replication_cluster import ReplicationCluster, batch, topic_id_of
from tests.fakes.requests.api_context import ApiCaller
from tests.fakes.requests.recording_replier import RecordingReplier, request_of
from tests.fakes.running.waiting import until

BATCH_SIZE = len(batch(b"v"))


def fetch(topic="t", *, offset=0, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, **values):
    partition = {
        name: values.pop(name)
        for name in ("current_leader_epoch", "last_fetched_epoch")
        if name in values
    }
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[
            FetchRequest.FetchTopic(
                topic=topic,
                topic_id=topic_id_of(topic),
                partitions=[
                    FetchRequest.FetchPartition(
                        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, **partition
                    )
                ],
            )
        ],
        **values,
    )


def only(response):
    (topic,) = response.responses
    (partition,) = topic.partitions
    return partition


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads_and_answers(cluster, call, version):
    cluster.append(cluster.lead("t"), b"v")

    response = call(handle, fetch(), version)

    assert len(only(response).records) == BATCH_SIZE
    assert only(response).preferred_read_replica == -1
    assert encode(response, version)


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_old_versions_get_old_formats(cluster, call, version, magic):
    cluster.append(cluster.lead("t"), b"v")

    response = call(handle, fetch(), version)

    assert read_any_header(only(response).records).magic == magic
    assert encode(response, version)


@pytest.mark.parametrize(("version", "size"), [(2, 0), (3, 1)])
def test_before_version_3_a_batch_beyond_the_limit_does_not_come(cluster, call, version, size):
    cluster.append(cluster.lead("t"), b"v")
    request = fetch()
    request.topics[0].partitions[0].partition_max_bytes = 10

    assert bool(only(call(handle, request, version)).records) == size


@pytest.mark.parametrize(
    ("version", "code"), [(4, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (10, ErrorCode.NONE)]
)
def test_a_topic_of_zstd_is_not_for_versions_before_10(cluster, call, version, code):
    cluster.lead("t").log.config.compression_type = "zstd"

    assert only(call(handle, fetch(), version)).error_code == code


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (3, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (5, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (6, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_a_failed_disk_has_a_code_that_the_client_knows(cluster, call, version, code):
    cluster.lead("t").log.fail_with = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    assert only(call(handle, fetch(), version)).error_code == code


@pytest.mark.parametrize(
    ("isolation_level", "size", "aborted"), [(0, BATCH_SIZE, None), (1, 0, [])]
)
def test_isolation_levels_see_open_transactions_or_not(
    cluster, call, isolation_level, size, aborted
):
    partition = cluster.lead("t")
    cluster.append(partition, b"v")
    partition.log.first_unstable_offset = 0

    data = only(call(handle, fetch(isolation_level=isolation_level), 11))

    assert (len(data.records), data.high_watermark, data.last_stable_offset) == (size, 1, 0)
    assert data.aborted_transactions == aborted


def test_an_isolation_level_that_does_not_exist_is_refused(cluster, call):
    with pytest.raises(KafkaError) as refused:
        call(handle, fetch(isolation_level=7), 11)

    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_a_waiting_fetch_is_answered_by_the_next_append(cluster, call):
    partition = cluster.lead("t")
    answer = call.start(handle, fetch(max_wait_ms=500), 11)

    cluster.append(partition, b"v")
    response = cluster.loop.run_until_complete(answer)

    assert len(only(response).records) == BATCH_SIZE


@pytest.fixture
def served(cluster, call):
    """Begins a Fetch over the whole way of a request; returns the connection's end."""
    apis = KafkaApis(registered(), call.services)

    def send(request, version=12):
        answer = apis.handle(request_of(1, version, encode(request, version)))
        assert isinstance(answer, Coming)  # so it takes no task
        replier = RecordingReplier()
        pool = KafkaRequestHandlerPool(lambda _: answer, channel := RequestChannel(1))
        pool.start()
        channel.send(replier, request_of(1, version, b""))
        return replier, answer.outcome

    return send


def test_a_waiting_fetch_is_answered_once_by_what_comes_first(cluster, served):
    partition = cluster.lead("t")
    by_append, _ = served(fetch(max_wait_ms=500))
    cluster.append(partition, b"v")
    cluster.append(partition, b"v")
    by_deadline, _ = served(fetch(offset=2, max_wait_ms=500))
    cluster.run_callbacks()
    early = len(by_append.results), len(by_deadline.results)

    cluster.time.advance(500)
    cluster.append(partition, b"v")
    cluster.time.advance(500)
    cluster.run_callbacks()

    assert early == (1, 0)
    assert (len(by_append.results), len(by_deadline.results)) == (1, 1)
    assert by_append.failures == by_deadline.failures == []


def test_a_waiting_fetch_that_is_given_up_waits_nowhere(cluster, served):
    partition = cluster.lead("t")
    replier, outcome = served(fetch(max_wait_ms=500))

    outcome.cancel()
    cluster.run_callbacks()
    waiting = len(cluster.replicas.waiting.fetches), cluster.replicas.waiting.fetches.watched()
    cluster.append(partition, b"v")
    cluster.time.advance(500)
    cluster.run_callbacks()

    assert waiting == (0, 0)
    assert (replier.results, len(replier.failures)) == ([], 1)


def test_min_bytes_above_max_bytes_do_not_wait_for_ever(cluster, call):
    cluster.append(cluster.lead("t"), b"v")

    response = call(handle, fetch(max_wait_ms=500, min_bytes=1 << 30, max_bytes=10), 11)

    assert len(only(response).records) == BATCH_SIZE


def test_sessions_leave_out_what_is_not_new(cluster, call):
    cluster.append(cluster.lead("t"), b"v")
    session_id = call(handle, fetch(offset=1, session_epoch=0), 11).session_id

    response = call(handle, FetchRequest(session_id=session_id, session_epoch=1), 11)

    assert session_id > 0
    assert (response.error_code, response.responses) == (0, [])


def test_an_unknown_session_is_refused(call):
    with pytest.raises(KafkaError) as refused:
        call(handle, FetchRequest(session_id=12345, session_epoch=1), 11)

    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("session_epoch", [-1, 0])
def test_an_unknown_topic_id_is_an_error_of_its_partition(call, session_epoch):
    data = only(call(handle, fetch("x", session_epoch=session_epoch), 13))

    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (-1, -1, -1)


def test_a_missing_topic_is_an_error_of_its_partition(call):
    assert only(call(handle, fetch("x"), 11)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def member_call(cluster):
    """Calls at a broker in a cluster where broker 1 is registered; and the epoch of that."""
    tree = EmbeddedTree(cluster.time).session()
    path = zk_paths.broker_path(1)
    cluster.loop.run_until_complete(tree.create(zk_paths.BROKER_IDS, make_parents=True))
    cluster.loop.run_until_complete(tree.create(path, b"{}", ephemeral=True))
    epoch = cluster.loop.run_until_complete(tree.exists(path)).czxid
    return ApiCaller(cluster, peers=peers_over(tree, cluster.time, "PLAINTEXT")), epoch


def from_broker(broker_id, epoch=-1, **asked):
    state = FetchRequest.ReplicaState(replica_id=broker_id, replica_epoch=epoch)
    return fetch(replica_id=broker_id, replica_state=state, **asked)


def test_a_follower_that_is_known_waits_without_a_task(cluster):
    partition = cluster.lead("t", isr=(0, 1), replicas=(0, 1))
    call, epoch = member_call(cluster)
    call(handle, from_broker(1, epoch), 17)

    coming = call.start(handle, from_broker(1, epoch, max_wait_ms=500), 17)
    cluster.append(partition, b"v")
    cluster.time.advance(0)

    assert isinstance(coming, Coming)
    assert len(only(coming.finish()).records) == BATCH_SIZE


@pytest.mark.parametrize("version", [11, 15])
@pytest.mark.parametrize(
    ("leader_epoch", "code"),
    [(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (0, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_broker_without_replica_gets_nothing(cluster, version, leader_epoch, code):
    cluster.lead("t")
    call, _ = member_call(cluster)

    data = only(call(handle, from_broker(1, current_leader_epoch=leader_epoch), version))

    assert data.error_code == code


def test_a_follower_is_answered_under_its_own_registration(cluster):
    partition = cluster.lead("t", isr=(0, 1), replicas=(0, 1))
    call, epoch = member_call(cluster)
    cluster.append(partition, b"v")

    codes = [only(call(handle, from_broker(1, e), 17)).error_code for e in (epoch, -1)]
    others = [only(call(handle, from_broker(1, e), 17)).error_code for e in (epoch - 1, epoch + 1)]

    assert codes == [ErrorCode.NONE] * 2
    assert others == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
    assert partition.log.high_watermark == 0


@pytest.mark.parametrize("version", [11, 15])
def test_a_broker_that_nobody_knows_moves_no_high_watermark(cluster, version):
    partition = cluster.lead("t", isr=(0, 7), replicas=(0, 7))
    call, _ = member_call(cluster)
    cluster.append(partition, b"v")

    data = only(call(handle, from_broker(7, offset=1), version))

    assert data.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert partition.log.high_watermark == 0


@pytest.mark.parametrize("version", [11, 15])
def test_a_broker_that_is_alone_knows_no_follower(cluster, call, version):
    partition = cluster.lead("t", isr=(0, 1), replicas=(0, 1))
    cluster.append(partition, b"v")

    data = only(call(handle, from_broker(1, offset=1), version))

    assert data.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (data.high_watermark, data.records) == (-1, b"")
    assert partition.log.high_watermark == 0


def test_a_debugging_reader_needs_to_be_no_broker(cluster, call):
    cluster.append(cluster.lead("t", isr=(0, 1), replicas=(0, 1)), b"v")

    assert only(call(handle, fetch(replica_id=-2), 11)).error_code == ErrorCode.NONE


@pytest.mark.parametrize(("version", "hints"), [(15, 0), (16, 1), (18, 1)])
def test_a_client_at_the_wrong_broker_learns_who_leads(cluster, call, version, hints):
    cluster.hear_of("t", leader=1, leader_epoch=4, isr=(1,), replicas=(1,))

    response = call(handle, fetch(), version)

    leader = only(response).current_leader
    assert only(response).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (leader.leader_id, leader.leader_epoch) == ((1, 4) if hints else (-1, -1))
    assert [(n.node_id, n.port) for n in response.node_endpoints] == [(1, 9093)] * hints


def test_consumers_cannot_ask_for_more_than_fetch_max_bytes():
    cluster = ReplicationCluster(fetch_max_bytes=1024)
    partition = cluster.lead("t")
    for _ in range(2):
        cluster.append(partition, b"v" * 900)

    data = only(ApiCaller(cluster)(handle, fetch(), 11))
    cluster.close()

    assert len(data.records) == 1024


def test_an_epoch_that_diverged_beyond_the_leader_is_out_of_range(cluster, call):
    cluster.append(cluster.lead("t"), b"v")

    data = only(call(handle, fetch(last_fetched_epoch=9), 12))

    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert data.diverging_epoch.epoch == -1


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (4, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (13, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_an_empty_name_is_no_topic_and_no_id_none_either(call, version, code):
    request = fetch("x")
    request.topics[0].topic = ""
    request.topics[0].topic_id = ZERO_UUID

    assert only(call(handle, request, version)).error_code == code


@pytest.mark.parametrize("version", [0, 3])
def test_records_are_converted_as_there_is_memory_for_their_clients(cluster, call, version):
    cluster.append(cluster.lead("t"), b"v" * 100_000)
    room = MemoryRoom(250_000)
    apis = KafkaApis(registered(), replace(call.services, room=room))
    body = encode(fetch(), version)
    answers = []

    async def ask():
        requests = [apis.handle(request_of(1, version, body)) for _ in range(10)]
        asking = {asyncio.ensure_future(request) for request in requests}
        for one in list(asking):
            one.add_done_callback(lambda done: answers.append(done.result()))
            one.add_done_callback(asking.remove)
        del one
        await until(lambda: len(answers) == 2)
        await until(lambda: room.is_wanted)
        assert len(answers) == 2
        for _ in range(8):
            answers.pop(0)  # it has left
            await until(lambda: len(answers) == 2)

    cluster.loop.run_until_complete(asyncio.wait_for(ask(), 10))

    answers.clear()
    assert room.taken_bytes == 0
