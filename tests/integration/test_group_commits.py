"""Offsets committed for a group without members, at a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka import KafkaConsumer
from kafka.admin import KafkaAdminClient, NewTopic

from compat_tests.conftest import BrokerProcess
from kbroker.client.bootstrap import Bootstrap
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.consumer_groups import committed_offsets
from kbroker.model import TopicPartition
from kbroker.pipeline.consumer_lag.group_commits import GroupCommits

GROUP = "spark-q"
A0, A1, GONE = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("gone", 0)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with topic `a` of two partitions."""
    process = BrokerProcess(tmp_path_factory.mktemp("broker") / "data")
    process.start()
    admin = KafkaAdminClient(bootstrap_servers=process.bootstrap)
    admin.create_topics([NewTopic("a", num_partitions=2, replication_factor=1)])
    admin.close()
    yield process
    process.stop()


@pytest.fixture
def commits(broker: BrokerProcess) -> Iterator[GroupCommits]:
    made = GroupCommits(Bootstrap(broker.bootstrap))
    yield made
    made.close()


def committed(broker: BrokerProcess, group: str) -> dict[TopicPartition, int | None]:
    with closing(ClusterLinks(broker.bootstrap)) as links:
        return committed_offsets(links, group)


def test_offsets_are_committed_and_go_back_where_a_query_did(
    broker: BrokerProcess, commits: GroupCommits
) -> None:
    first = commits.commit(GROUP, {A0: 7, A1: 0})
    second = commits.commit(GROUP, {A0: 3})

    assert (first.settled, first.problem) == ({A0: 7, A1: 0}, None)
    assert (second.settled, second.problem) == ({A0: 3}, None)
    assert committed(broker, GROUP) == {A0: 3, A1: 0}


def test_a_topic_that_is_gone_is_settled_and_no_problem(
    broker: BrokerProcess, commits: GroupCommits
) -> None:
    outcome = commits.commit("spark-gone", {A0: 5, GONE: 9})

    assert (outcome.settled, outcome.problem) == ({A0: 5, GONE: 9}, None)
    assert committed(broker, "spark-gone") == {A0: 5}


def test_a_group_with_members_is_left_to_them_until_they_go(
    broker: BrokerProcess, commits: GroupCommits
) -> None:
    member = KafkaConsumer("a", bootstrap_servers=broker.bootstrap, group_id="spark-busy")
    while not member.assignment():
        member.poll(timeout_ms=1_000)

    refused = commits.commit("spark-busy", {A0: 5})
    member.close()
    taken = commits.commit("spark-busy", {A0: 5})

    assert refused.settled == {}
    assert refused.problem is not None
    assert "group spark-busy has members of its own" in refused.problem
    assert (taken.settled, taken.problem) == ({A0: 5}, None)


def test_a_broker_that_is_away_is_a_problem_until_it_is_back(
    broker: BrokerProcess, commits: GroupCommits
) -> None:
    assert commits.commit("spark-on", {A0: 1}).problem is None
    broker.stop()
    away = [commits.commit("spark-on", {A0: 2}) for _ in range(2)]
    broker.start()
    back = commits.commit("spark-on", {A0: 2})

    assert [outcome.settled for outcome in away] == [{}, {}]
    assert all("takes no offsets" in str(outcome.problem) for outcome in away)
    assert (back.settled, back.problem) == ({A0: 2}, None)
    assert committed(broker, "spark-on") == {A0: 2}


def test_what_listens_there_is_no_broker(commits: GroupCommits) -> None:
    nobody = GroupCommits(Bootstrap("127.0.0.1:1"))

    outcome = nobody.commit(GROUP, {A0: 1})

    assert outcome.settled == {}
    assert "cannot connect to 127.0.0.1:1" in str(outcome.problem)
