from __future__ import annotations

from collections.abc import Iterator

import pytest

from kbroker.apis.fetch import handle
from kbroker.apis.near_replicas import ReplicaView, select_by_rack
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.replication_config import ReplicationConfig
from kbroker.errors import ConfigError, ErrorCode
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import TopicPartition
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.replication.reads.fetch_params import FetchParams, FetchPartition
from tests.fakes.clusters.replication_cluster import (
    ReplicationCluster,
    leader_and_isr,
    update_metadata,
)
from tests.fakes.requests.api_context import ApiCaller

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
RACKS = {0: "a", 1: "b", 2: "b"}
LEADER = ReplicaView(0, "a", 10, 0)


def test_the_leader_is_preferred_in_its_own_rack():
    assert select_by_rack("a", LEADER, [ReplicaView(1, "a", 10, 0)]) is LEADER


def test_of_the_followers_in_the_rack_the_one_with_most_records_is_chosen():
    less, more = ReplicaView(1, "b", 8, 0), ReplicaView(2, "b", 9, 5_000)

    assert select_by_rack("b", LEADER, [less, more]) is more


def test_of_two_with_as_many_records_the_one_that_lags_for_a_shorter_time_is_chosen():
    late, early = ReplicaView(1, "b", 9, 4_000), ReplicaView(2, "b", 9, 3_000)

    assert select_by_rack("b", LEADER, [late, early]) is early


def test_the_leader_serves_racks_without_a_replica():
    assert select_by_rack("c", LEADER, [ReplicaView(1, "b", 10, 0)]) is LEADER


@pytest.fixture
def cluster() -> Iterator[ReplicationCluster]:
    """Two records on broker 0, which leads; broker 1 is in sync and has one, broker 2 has none."""
    cluster = ReplicationCluster(replica_selector_class=RACK_AWARE)
    partition = cluster.lead("t", isr=(0, 1), replicas=(0, 1, 2))
    cluster.metadata.update(update_metadata(racks=RACKS))
    cluster.append(partition, b"v")
    cluster.append(partition, b"w")
    for broker_id, offset in ((1, 1), (2, 0)):
        follow(cluster, broker_id, offset)
    yield cluster
    cluster.close()


def follow(cluster, broker_id, offset):
    params = FetchParams(isolation=FetchIsolation.LOG_END, max_bytes=1 << 20, replica_id=broker_id)
    asked = FetchPartition(TopicPartition("t", 0), fetch_offset=offset, log_start_offset=0)
    cluster.replicas.fetches.fetch(params, [asked])


def consume(cluster, offset, *, rack_id="b", version=11, max_wait_ms=0, **values):
    request = FetchRequest(
        rack_id=rack_id,
        max_wait_ms=max_wait_ms,
        topics=[
            FetchRequest.FetchTopic(
                topic="t",
                partitions=[
                    FetchRequest.FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20)
                ],
            )
        ],
        **values,
    )
    return ApiCaller(cluster)(handle, request, version)


def only(response):
    ((data,),) = (topic.partitions for topic in response.responses)
    return data


def test_a_consumer_is_sent_to_the_follower_in_its_rack_without_records(cluster):
    data = only(consume(cluster, 0, max_wait_ms=500))

    assert (data.error_code, data.preferred_read_replica, len(data.records)) == (0, 1, 0)
    assert (data.high_watermark, data.log_start_offset) == (1, 0)


@pytest.mark.parametrize("rack_id", ["", "a", "c"])
def test_the_leader_serves_all_others(cluster, rack_id):
    data = only(consume(cluster, 0, rack_id=rack_id))

    assert (data.preferred_read_replica, len(data.records) > 0) == (-1, True)


def test_nobody_is_sent_to_a_follower_that_lacks_the_offset(cluster):
    follow(cluster, 1, 2)  # the high watermark is 2 now, and broker 1 has both records
    cluster.append(cluster.replicas.hosted.get(TopicPartition("t", 0)), b"x")

    assert only(consume(cluster, 2)).preferred_read_replica == 1
    assert only(consume(cluster, 3)).preferred_read_replica == -1


def test_nobody_is_sent_to_a_broker_that_is_down(cluster):
    cluster.metadata.update(update_metadata(brokers=(0, 2), racks=RACKS))

    assert only(consume(cluster, 0)).preferred_read_replica == -1


def test_without_the_setting_everybody_reads_from_the_leader(cluster):
    cluster.replicas.config = ReplicationConfig()

    assert only(consume(cluster, 0)).preferred_read_replica == -1


def test_a_session_is_told_each_time(cluster):
    session_id = consume(cluster, 0, session_epoch=0).session_id

    again = ApiCaller(cluster)(
        handle, FetchRequest(rack_id="b", session_id=session_id, session_epoch=1), 11
    )

    assert only(again).preferred_read_replica == 1


def test_a_follower_serves_consumers_and_sends_them_nowhere(cluster):
    order = leader_and_isr("t", leader=1, leader_epoch=1, isr=(0, 1), replicas=(0, 1, 2))
    cluster.replicas.leadership.become_leader_or_follower(order)

    data = only(consume(cluster, 0))

    assert (data.error_code, data.preferred_read_replica) == (ErrorCode.NONE, -1)
    assert len(data.records) > 0


def test_another_class_is_refused():
    with pytest.raises(ConfigError, match="RackAwareReplicaSelector"):
        KafkaConfig.for_profile("dev", {"replica.selector.class": "com.example.Mine"})
