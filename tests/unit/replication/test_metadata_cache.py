from __future__ import annotations

import pytest

from kbroker.errors import ErrorCode
from kbroker.model import ZERO_UUID, TopicPartition
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.replication.controller_requests.request_shapes import grouped_update_metadata
from kbroker.replication.metadata_cache import FULL_UPDATE, MetadataCache
from tests.fakes.clusters.replication_cluster import (
    partition_metadata,
    topic_id_of,
    update_metadata,
)
from tests.fakes.running.counted_steps import steps_of


@pytest.fixture
def cache() -> MetadataCache:
    cache = MetadataCache(0)
    cache.update(update_metadata(("t", partition_metadata())))
    return cache


def described(cache, version=9, listener="PLAINTEXT"):
    return cache.describe_topic("t", version, listener).partitions[0]


def test_look_ups_find_what_the_controller_said(cache):
    assert cache.topics() == ["t"]
    assert cache.contains(TopicPartition("t", 0))
    assert not cache.contains(TopicPartition("t", 1))
    assert cache.partition_count("t") == 1
    assert cache.topic_name(topic_id_of("t")) == "t"
    assert cache.topic_id("t") == topic_id_of("t")
    assert [broker.broker_id for broker in cache.alive_brokers()] == [0, 1, 2]


def test_unknown_topics_have_no_partitions_and_no_id(cache):
    assert cache.partition_count("u") == 0
    assert cache.topic_id("u") == ZERO_UUID
    assert cache.topic_name(topic_id_of("u")) is None
    assert cache.describe_topic("u", 9, "PLAINTEXT") is None


def test_an_update_leaves_other_partitions_alone(cache):
    cache.update(update_metadata(("t", partition_metadata(1)), ("u", partition_metadata())))

    assert cache.partition_count("t") == 2
    assert sorted(cache.topics()) == ["t", "u"]


def test_leader_minus_two_deletes_a_partition(cache):
    gone = cache.update(update_metadata(("t", partition_metadata(leader=-2))))

    assert gone == [TopicPartition("t", 0)]
    assert cache.topics() == []
    assert cache.topic_name(topic_id_of("t")) is None


def test_a_full_update_drops_what_it_does_not_name_and_calls_nothing_deleted(cache):
    deleted = cache.update(update_metadata(("u", partition_metadata()), kind=FULL_UPDATE))

    assert (deleted, cache.topics()) == ([], ["u"])


def test_a_topic_created_anew_has_its_new_id_only(cache):
    request = update_metadata(("t", partition_metadata()))
    request.topic_states[0].topic_id = topic_id_of("new")

    cache.update(request)

    assert cache.topic_id("t") == topic_id_of("new")
    assert cache.topic_name(topic_id_of("t")) is None


def test_partitions_of_a_topic_that_was_replaced_unheard_are_forgotten(cache):
    cache.update(update_metadata(("t", partition_metadata(1))))
    request = update_metadata(("t", partition_metadata(0)), kind=FULL_UPDATE)
    request.topic_states[0].topic_id = topic_id_of("new")

    gone = cache.update(request)

    assert gone == [], "the topic is there, whatever was known of its name"
    assert cache.partition_count("t") == 1


def test_old_versions_of_update_metadata_are_understood():
    cache = MetadataCache(0)
    state = partition_metadata()
    state.topic_name = "old"

    cache.update(grouped_update_metadata(UpdateMetadataRequest(ungrouped_partition_states=[state])))

    assert cache.contains(TopicPartition("old", 0))


def test_a_dead_controller_is_not_named(cache):
    cache.update(update_metadata(controller_id=1))
    alive = cache.controller_id
    cache.update(update_metadata(controller_id=1, brokers=(0, 2)))

    assert (alive, cache.controller_id) == (1, -1)


def test_a_healthy_partition_is_described_without_error(cache):
    partition = described(cache)

    assert (partition.error_code, partition.leader_id, partition.isr_nodes) == (0, 0, [0])


def test_a_partition_with_a_dead_leader_has_none(cache):
    cache.update(update_metadata(brokers=(1, 2)))

    partition = described(cache)

    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert partition.replica_nodes == [0]


def test_version_0_leaves_dead_replicas_out(cache):
    cache.update(update_metadata(brokers=(1, 2)))

    partition = described(cache, version=0)

    assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (partition.replica_nodes, partition.isr_nodes) == ([], [])


def test_version_0_tells_of_a_dead_replica(cache):
    state = partition_metadata(isr=(0,), replicas=(0, 7), offline=(7,))
    cache.update(update_metadata(("t", state)))

    assert described(cache, version=0).error_code == ErrorCode.REPLICA_NOT_AVAILABLE
    assert described(cache, version=5).error_code == 0
    assert described(cache, version=5).offline_replicas == [7]


@pytest.mark.parametrize(
    ("version", "code"),
    [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)],
)
def test_a_leader_without_the_listener_is_not_reachable(cache, version, code):
    assert described(cache, version, "OTHER").error_code == code


def test_descriptions_are_kept_until_something_changes(cache):
    first = cache.describe_topic("t", 9, "PLAINTEXT")
    again = cache.describe_topic("t", 12, "PLAINTEXT")
    cache.update(update_metadata(("t", partition_metadata(leader_epoch=1))))
    changed = cache.describe_topic("t", 9, "PLAINTEXT")
    cache.update(update_metadata(brokers=(0,)))
    after_death = cache.describe_topic("t", 9, "PLAINTEXT")

    assert first is again
    assert changed.partitions[0].leader_epoch == 1
    assert after_death is not changed


def test_internal_topics_are_marked(cache):
    cache.update(update_metadata(("__consumer_offsets", partition_metadata())))

    assert cache.describe_topic("__consumer_offsets", 9, "PLAINTEXT").is_internal
    assert not cache.describe_topic("t", 9, "PLAINTEXT").is_internal


def test_what_an_update_costs_a_partition_is_little(cache):
    states = [partition_metadata(number) for number in range(1_000)]
    request = update_metadata(("t", states[0]), kind=FULL_UPDATE)
    request.topic_states[0].partition_states = states

    assert steps_of(lambda: cache.update(request)) < 13 * len(states)
    assert cache.partition_count("t") == len(states)


# ---- news of topics


@pytest.fixture
def news(cache: MetadataCache) -> list[set[str]]:
    heard: list[set[str]] = []
    cache.on_topics_changed = lambda names: heard.append(set(names))
    return heard


def test_only_topics_that_have_changed_are_told(cache, news):
    same = update_metadata(("t", partition_metadata()))
    cache.update(same)
    cache.update(update_metadata(("t", partition_metadata(leader=1))))
    assert news == []

    cache.update(update_metadata(("t", partition_metadata(1)), ("u", partition_metadata())))
    cache.update(update_metadata(("u", partition_metadata(leader=-2))))

    assert news == [{"t", "u"}, {"u"}]


def test_what_changed_before_somebody_wants_to_know_is_not_told(cache):
    cache.update(update_metadata(("t", partition_metadata())))
    heard: list[set[str]] = []
    cache.on_topics_changed = lambda names: heard.append(set(names))

    cache.update(update_metadata(("u", partition_metadata())))

    assert heard == [{"u"}]


def test_a_rack_stays_while_its_broker_is_down_and_a_new_one_is_news_of_all_topics(cache, news):
    def of(*racks: str) -> UpdateMetadataRequest:
        known = dict(enumerate(racks))
        return update_metadata(("t", partition_metadata()), brokers=known, racks=known)

    cache.update(of("a", "b"))
    cache.update(of("a"))
    cache.update(of("a", "b"))
    assert news == [{"t"}]
    assert cache.racks == {0: "a", 1: "b"}

    cache.update(of("a", "c"))

    assert news == [{"t"}, {"t"}]
