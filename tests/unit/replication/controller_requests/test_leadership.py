from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import LEADER_DURING_DELETE, ZERO_UUID, TopicPartition
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kbroker.protocol.messages.stop_replica import StopReplicaRequest
from kbroker.replication.controller_requests.request_shapes import (
    grouped_leader_and_isr,
    grouped_stop_replica,
)
from kbroker.replication.metadata_cache import FULL_UPDATE
from tests.fakes.clusters.replication_cluster import (
    leader_and_isr,
    partition_metadata,
    stop_replica,
    topic_id_of,
    update_metadata,
)

TP = TopicPartition("t", 0)


def code_of(response) -> int:
    return response.partition_errors[0].error_code


def test_a_new_leader_opens_its_epoch_where_its_log_ends(cluster):
    partition = cluster.lead("t", leader_epoch=4)

    assert partition.is_leader
    assert partition.log.leader_epoch_cache.entries == [(4, 0)]


def test_a_stale_controller_is_refused_whole(cluster):
    cluster.lead("t")

    leader = cluster.replicas.leadership.become_leader_or_follower(leader_and_isr("u", epoch=4))
    stop = cluster.replicas.leadership.stop_replicas(stop_replica("t", epoch=4))
    metadata = cluster.replicas.leadership.update_metadata(update_metadata(epoch=4))

    assert leader.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert stop.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert metadata.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert cluster.replicas.hosted.find(TP) is not None


@pytest.mark.parametrize("epoch", [1, 2])
def test_news_of_an_epoch_that_is_not_newer_changes_nothing(cluster, epoch):
    cluster.lead("t", leader_epoch=2)
    order = leader_and_isr("t", leader=1, leader_epoch=epoch, isr=(1,), replicas=(0, 1))

    response = cluster.replicas.leadership.become_leader_or_follower(order)

    assert code_of(response) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert cluster.replicas.hosted.get(TP).is_leader


def test_a_leader_learns_other_replicas_under_the_epoch_it_has(cluster):
    """A controller that cannot end what it began tells all again, and nothing else tells them."""
    partition = cluster.lead("t", leader_epoch=2, isr=(0,), replicas=(0, 1))
    order = leader_and_isr("t", leader=0, leader_epoch=2, isr=(0,), replicas=(0, 2))

    response = cluster.replicas.leadership.become_leader_or_follower(order)

    assert code_of(response) == ErrorCode.STALE_CONTROLLER_EPOCH, "it led before"
    assert partition.is_leader
    assert partition.state.replicas == (0, 2)
    assert list(partition.state.followers) == [2]


def test_a_partition_without_a_replica_here_is_refused(cluster):
    order = leader_and_isr("t", leader=1, isr=(1,), replicas=(1, 2))

    assert code_of(cluster.replicas.leadership.become_leader_or_follower(order)) == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def test_another_topic_id_is_refused(cluster):
    cluster.lead("t")
    order = leader_and_isr("t", leader_epoch=1, topic_id=topic_id_of("other"))

    response = cluster.replicas.leadership.become_leader_or_follower(order)

    assert code_of(response) == ErrorCode.INCONSISTENT_TOPIC_ID
    assert response.topics[0].topic_id == topic_id_of("other")
    assert cluster.replicas.leadership.was_refused(TP)
    cluster.replicas.leadership.become_leader_or_follower(leader_and_isr("t", leader_epoch=2))
    assert not cluster.replicas.leadership.was_refused(TP)


@pytest.mark.parametrize("epoch", [4, 5], ids=["at the same epoch", "at the next one"])
@pytest.mark.parametrize("leader", [0, 1], ids=["a leader", "a follower"])
def test_a_topic_id_that_comes_later_is_taken_over(cluster, epoch, leader):
    """Controllers give topics ids that were made without them, under the epochs they have."""
    heard = []
    order = {"leader": leader, "isr": (leader,), "replicas": (0, 1)}
    leadership = cluster.replicas.leadership
    leadership.become_leader_or_follower(
        leader_and_isr("t", leader_epoch=4, topic_id=ZERO_UUID, **order)
    )
    partition = cluster.replicas.hosted.get(TP)
    assert partition.topic_id == ZERO_UUID
    leadership.add_leadership_listener(lambda *changed: heard.append(changed))

    response = leadership.become_leader_or_follower(
        leader_and_isr("t", leader_epoch=epoch, **order)
    )

    assert code_of(response) == ErrorCode.NONE
    assert partition.topic_id == topic_id_of("t")
    if leader == 1:
        assert heard == [([], [partition])], "it is fetched under its id"
    elif epoch == 4:
        assert heard == [], "it leads on"


def test_an_order_without_a_topic_id_at_the_same_epoch_changes_nothing(cluster):
    partition = cluster.lead("t", leader_epoch=4)

    response = cluster.replicas.leadership.become_leader_or_follower(
        leader_and_isr("t", leader_epoch=4, topic_id=ZERO_UUID)
    )

    assert code_of(response) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert partition.topic_id == topic_id_of("t")


def test_a_log_that_cannot_be_made_takes_the_partition_offline(cluster):
    cluster.hear_of("t")
    cluster.log_manager.refuse = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    response = cluster.replicas.leadership.become_leader_or_follower(leader_and_isr("t"))

    assert code_of(response) == ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError) as refused:
        cluster.replicas.hosted.get(TP)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_listeners_hear_of_leaders_and_followers_once(cluster):
    heard = []
    cluster.replicas.leadership.add_leadership_listener(
        lambda led, followed: heard.append((led, followed))
    )

    partition = cluster.lead("t", isr=(0, 1), replicas=(0, 1))
    order = leader_and_isr("t", leader=1, leader_epoch=1, isr=(1,), replicas=(0, 1))
    cluster.replicas.leadership.become_leader_or_follower(order)
    cluster.replicas.leadership.become_leader_or_follower(order)

    assert heard == [([partition], []), ([], [partition])]


def test_a_deleted_partition_is_gone_with_its_log(cluster):
    partition = cluster.lead("t")
    heard = []
    cluster.replicas.leadership.add_leadership_listener(
        lambda led, followed: heard.append((led, followed))
    )

    response = cluster.replicas.leadership.stop_replicas(stop_replica("t"))

    assert code_of(response) == 0
    assert cluster.replicas.hosted.find(TP) is None
    assert cluster.log_manager.logs == {}
    assert heard == [([], [partition])]


def test_deleting_what_is_not_there_succeeds(cluster):
    assert code_of(cluster.replicas.leadership.stop_replicas(stop_replica("t"))) == 0


def test_a_stopped_replica_keeps_its_log_but_does_not_lead(cluster):
    partition = cluster.lead("t")

    cluster.replicas.leadership.stop_replicas(stop_replica("t", leader_epoch=0, delete=False))

    assert not partition.is_leader
    assert TP in cluster.log_manager.logs


def test_a_stopped_replica_follows_the_leader_it_had_when_told_to(cluster):
    where = {"leader": 1, "leader_epoch": 4, "isr": (1,), "replicas": (1, 0)}
    partition = cluster.lead("t", **where)
    leadership = cluster.replicas.leadership
    heard = []
    leadership.add_leadership_listener(lambda _, followers: heard.extend(followers))
    leadership.stop_replicas(stop_replica("t", leader_epoch=4, delete=False))
    heard.clear()

    cluster.lead("t", **where)

    assert heard == [partition]
    assert partition.state.leader == 1


@pytest.mark.parametrize("is_leader", [True, False])
def test_a_replica_that_others_have_got_meanwhile_is_stopped_by_the_news_of_it(cluster, is_leader):
    leader = 0 if is_leader else 1
    partition = cluster.lead("t", leader=leader, leader_epoch=4, isr=(leader,), replicas=(0, 1))
    leadership = cluster.replicas.leadership
    heard = []
    leadership.add_leadership_listener(lambda _, followers: heard.extend(followers))
    known = partition_metadata(leader=2, leader_epoch=4, isr=(2,), replicas=(1, 2))
    leadership.update_metadata(update_metadata(("t", known)))
    assert (heard, partition.state.leader) == ([], leader)

    news = partition_metadata(leader=2, leader_epoch=5, isr=(2,), replicas=(1, 2))
    leadership.update_metadata(update_metadata(("t", news)))

    assert heard == [partition]
    assert not partition.is_leader
    assert TP in cluster.log_manager.logs


def test_an_old_order_to_stop_is_fenced(cluster):
    cluster.lead("t", leader_epoch=3)

    response = cluster.replicas.leadership.stop_replicas(stop_replica("t", leader_epoch=2))

    assert code_of(response) == ErrorCode.FENCED_LEADER_EPOCH
    assert cluster.replicas.hosted.get(TP).is_leader


def test_old_versions_of_stop_replica_are_understood(cluster):
    cluster.lead("t", 0)
    cluster.lead("t", 1)

    cluster.replicas.leadership.stop_replicas(
        grouped_stop_replica(
            StopReplicaRequest(
                controller_epoch=5,
                delete_partitions=True,
                topics=[StopReplicaRequest.StopReplicaTopicV1(name="t", partition_indexes=[1])],
                ungrouped_partitions=[
                    StopReplicaRequest.StopReplicaPartitionV0(topic_name="t", partition_index=0)
                ],
            )
        )
    )

    assert cluster.log_manager.logs == {}


def test_old_versions_of_leader_and_isr_are_understood(cluster):
    state = LeaderAndIsrRequest.LeaderAndIsrPartitionState(
        topic_name="t", partition_index=0, leader=0, leader_epoch=0, isr=[0], replicas=[0]
    )
    request = LeaderAndIsrRequest(controller_epoch=5, ungrouped_partition_states=[state])

    response = cluster.replicas.leadership.become_leader_or_follower(
        grouped_leader_and_isr(request)
    )

    assert (response.partition_errors[0].topic_name, code_of(response)) == ("t", 0)
    assert cluster.replicas.hosted.get(TP).is_leader


def test_a_high_watermark_survives_a_restart(cluster):
    cluster.log_manager.high_watermarks = {TP: 7, TopicPartition("gone", 0): 3}
    log = cluster.log_manager.get_or_create_log(TP, topic_id_of("t"))
    log.log_end_offset = 9

    partition = cluster.lead("t", isr=(0, 1), replicas=(0, 1))
    cluster.replicas.logs.checkpoint_high_watermarks()

    assert partition.high_watermark == 7
    assert cluster.log_manager.high_watermarks == {TP: 7}


def test_a_checkpoint_before_leadership_is_settled_loses_nothing(cluster):
    cluster.log_manager.high_watermarks = {TP: 7}
    cluster.log_manager.get_or_create_log(TP, topic_id_of("t"))

    cluster.replicas.logs.checkpoint_high_watermarks()

    assert cluster.log_manager.high_watermarks == {TP: 7}


def test_what_is_made_for_very_many_partitions_costs_no_collections_and_goes_with_them(tmp_path):
    """Of a broker in a process of its own: collections of a whole test run take long."""
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("kept_out_partitions.py"), tmp_path],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_lagging_follower_is_proposed_to_leave_the_isr(cluster):
    proposed = []
    cluster.replicas.leadership.isr_changes = SimpleNamespace(
        propose=lambda partition, isr: proposed.append((partition, isr))
    )
    partition = cluster.lead("t", isr=(0, 1), replicas=(0, 1))
    cluster.append(partition, b"v", acks=1)

    cluster.replicas.maybe_shrink_isr()
    cluster.time.advance(30_001)
    cluster.replicas.maybe_shrink_isr()
    cluster.replicas.isr_settled(TP, (0,), 1)

    assert proposed == [(partition, (0,))]
    assert partition.state.isr == (0,)
    assert partition.high_watermark == 1


def test_metadata_that_is_not_stale_is_taken_over(cluster):
    state = partition_metadata(leader=2, isr=(2,), replicas=(2,))

    response = cluster.replicas.leadership.update_metadata(update_metadata(("t", state), epoch=9))

    assert response.error_code == 0
    assert cluster.metadata.contains(TP)


def test_a_failed_data_directory_takes_its_partitions_offline(cluster):
    partition = cluster.lead("t", isr=(0, 1), replicas=(0, 1))
    answer = cluster.append(partition, b"v", acks=-1)
    heard = []
    cluster.replicas.leadership.add_leadership_listener(
        lambda led, followed: heard.append((led, followed))
    )

    cluster.replicas.leadership.partitions_offline([TP])
    heard_at_once = list(heard)
    cluster.time.advance(0)

    assert answer.result()[0].error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (heard_at_once, heard) == ([], [([], [partition])])


def test_listeners_hear_which_partitions_have_gone_from_the_cluster(cluster):
    cluster.hear_of("t")
    heard = []
    cluster.replicas.leadership.add_deletion_listener(heard.extend)

    cluster.replicas.leadership.update_metadata(
        update_metadata(("t", partition_metadata(leader=-2)))
    )

    assert heard == [TP]


def test_a_log_that_could_not_be_made_is_made_with_a_later_order_also_as_an_old_one(cluster):
    told = []
    cluster.replicas.logs.on_unmade = lambda: told.append("unmade")
    cluster.hear_of("t")
    cluster.log_manager.refuse = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    cluster.replicas.leadership.become_leader_or_follower(leader_and_isr("t"))
    cluster.log_manager.refuse = None
    asked_as_new = []
    make = cluster.log_manager.get_or_create_log

    def get_or_create_log(topic_partition, topic_id, *, is_new=True):
        asked_as_new.append(is_new)
        return make(topic_partition, topic_id, is_new=is_new)

    cluster.log_manager.get_or_create_log = get_or_create_log

    refused = cluster.replicas.leadership.become_leader_or_follower(
        leader_and_isr("t", leader_epoch=1)
    )
    has_unmade = cluster.replicas.logs.retry_unmade()
    order = leader_and_isr("t", leader_epoch=1)
    order.topic_states[0].partition_states[0].is_new = False
    made = cluster.replicas.leadership.become_leader_or_follower(order)

    assert told == ["unmade"]
    assert code_of(refused) == ErrorCode.KAFKA_STORAGE_ERROR
    assert has_unmade
    assert code_of(made) == 0
    assert asked_as_new == [True]
    assert not cluster.replicas.logs.retry_unmade()


@pytest.mark.parametrize(
    "news",
    [
        update_metadata(("t", partition_metadata(leader=1, isr=(1, 2), replicas=(1, 2)))),
        update_metadata(kind=FULL_UPDATE),
    ],
    ids=["given to others", "its topic is gone"],
)
def test_a_log_that_could_not_be_made_is_not_tried_again_once_others_have_it(cluster, news):
    cluster.hear_of("t")
    cluster.log_manager.refuse = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    cluster.replicas.leadership.become_leader_or_follower(leader_and_isr("t"))

    cluster.replicas.leadership.update_metadata(news)

    known = cluster.metadata.partition_state(TP)
    assert known is None or known.offline_replicas == []
    assert not cluster.replicas.hosted.is_offline(TP)
    assert not cluster.replicas.logs.retry_unmade()


def test_a_log_that_could_not_be_made_is_tried_again_after_news_of_other_topics(cluster):
    cluster.log_manager.refuse = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    cluster.replicas.leadership.become_leader_or_follower(leader_and_isr("t"))

    cluster.replicas.leadership.update_metadata(update_metadata(("u", partition_metadata())))

    assert cluster.replicas.hosted.is_offline(TP)
    assert cluster.replicas.logs.retry_unmade()


def test_a_replica_of_a_topic_that_has_gone_gives_way_to_a_new_topic_of_its_name(cluster):
    partition = cluster.lead("t", leader_epoch=5)
    stop = stop_replica("t")
    stop.topic_states[0].partition_states[0].leader_epoch = LEADER_DURING_DELETE
    stop.topic_states[0].partition_states[0].delete_partition = False

    cluster.replicas.leadership.stop_replicas(stop)
    log_kept = cluster.log_manager.get_log(TP)
    made = cluster.replicas.leadership.become_leader_or_follower(
        leader_and_isr("t", leader_epoch=0)
    )

    assert log_kept is partition.log
    assert code_of(made) == 0
