"""ElectLeaders as a handler: preferred and unclean elections, and why there is none."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from kbroker.apis.elect_leaders import handle
from kbroker.errors import ErrorCode
from kbroker.model import ReplicaAssignment
from kbroker.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kbroker.zk.zk_paths import TopicAssignment
from tests.fakes.requests.admin_context import AdminClient
from tests.fakes.trees.topic_nodes import create_topic

Row = tuple[str, int, int]
TopicPartitions = ElectLeadersRequest.TopicPartitions
PREFERRED, UNCLEAN = 0, 1
TOPIC_ID = UUID(int=43)


async def create(client: AdminClient, name: str, *replicas: tuple[int, ...]) -> None:
    """Straight into the tree: topics with several replicas are not made by clients yet."""
    partitions = {i: ReplicaAssignment(replicas=brokers) for i, brokers in enumerate(replicas)}
    assignment = TopicAssignment(topic_id=TOPIC_ID, partitions=partitions)
    await create_topic(client.broker.zk, name, assignment)
    await client.broker.cluster.settle()


async def elect(
    client: AdminClient,
    *topics: TopicPartitions,
    version: int = 2,
    kind: int = PREFERRED,
    every: bool = False,
) -> list[Row]:
    request = ElectLeadersRequest(
        election_type=kind, topic_partitions=None if every else list(topics), timeout_ms=1000
    )
    response: ElectLeadersResponse = await client.ask(handle, request, version)
    assert response.error_code == ErrorCode.NONE
    return [
        (topic.topic, row.partition_id, row.error_code)
        for topic in response.replica_election_results
        for row in topic.partition_result
    ]


def of(topic: str, *partitions: int) -> TopicPartitions:
    return TopicPartitions(topic=topic, partitions=list(partitions))


async def write_isr(client: AdminClient, isr: str) -> None:
    """The state of t-0 as it is when replicas have come or gone."""
    path = "/brokers/topics/t/partitions/0/state"
    data, _ = await client.broker.session.get(path)
    assert data is not None
    head = data.decode().partition('"isr"')[0]
    await client.broker.session.set(path, f'{head}"isr":[{isr}]}}'.encode())


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("brokers", [2])
async def test_a_preferred_leader_that_is_back_leads_again(
    version: int, client: AdminClient
) -> None:
    cluster = client.broker.cluster
    await create(client, "t", (1, 0), (0, 1))
    cluster.brokers[1].kill()
    await cluster.settle()
    await cluster.start(1)
    await write_isr(client, "0,1")
    assert await elect(client, of("t", 0, 1), version=version) == [
        ("t", 0, ErrorCode.NONE),
        ("t", 1, ErrorCode.ELECTION_NOT_NEEDED),
    ]
    (state,) = [s for s in cluster.state() if s.startswith("t-0")]
    assert '"leader":1' in state


@pytest.mark.parametrize("brokers", [2])
async def test_a_request_for_all_partitions_shows_only_those_that_were_to_change(
    client: AdminClient,
) -> None:
    cluster = client.broker.cluster
    await create(client, "t", (1, 0), (0, 1))
    assert await elect(client, every=True) == []
    cluster.brokers[1].kill()
    await cluster.settle()
    assert await elect(client, every=True) == [("t", 0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]


@pytest.mark.parametrize("brokers", [2])
async def test_partitions_that_cannot_be_led_have_an_error_and_a_sentence(
    client: AdminClient,
) -> None:
    cluster = client.broker.cluster
    await create(client, "lone", (1,))
    cluster.brokers[1].kill()
    await cluster.settle()
    asked = [of("lone", 0), of("no-such", 3)]
    assert await elect(client, *asked, kind=UNCLEAN) == [
        ("lone", 0, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
        ("no-such", 3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    request = ElectLeadersRequest(topic_partitions=asked)
    response = await client.ask(handle, request, 1)
    messages = [t.partition_result[0].error_message for t in response.replica_election_results]
    assert messages == [
        "Failed to elect leader for partition lone-0 under strategy "
        "PreferredReplicaPartitionLeaderElectionStrategy",
        "The partition does not exist.",
    ]


@pytest.mark.parametrize("brokers", [2])
async def test_an_unclean_election_takes_a_living_replica_that_is_not_in_sync(
    client: AdminClient,
) -> None:
    cluster = client.broker.cluster
    await create(client, "t", (1, 0))
    await write_isr(client, "1")
    cluster.brokers[1].kill()
    await cluster.settle()
    assert await elect(client, of("t", 0), kind=PREFERRED) == [
        ("t", 0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    ]
    assert await elect(client, of("t", 0), kind=UNCLEAN) == [("t", 0, ErrorCode.NONE)]
    (state,) = cluster.state()
    assert '"leader":0' in state
    assert '"leader_recovery_state":1' in state
    assert await elect(client, of("t", 0), kind=UNCLEAN) == [
        ("t", 0, ErrorCode.ELECTION_NOT_NEEDED)
    ]


@pytest.mark.parametrize("brokers", [2])
async def test_a_broker_that_is_not_controller_says_so_for_each_partition(
    client: AdminClient,
) -> None:
    await create(client, "t", (0,))
    other = AdminClient(client.broker.cluster.brokers[1])
    expected = [("t", 0, ErrorCode.NOT_CONTROLLER)]
    assert await elect(other, of("t", 0)) == expected
    assert await elect(other, every=True) == expected


@pytest.mark.parametrize("brokers", [2])
async def test_leaders_that_are_not_shown_in_time_are_reported(
    monkeypatch: pytest.MonkeyPatch, client: AdminClient
) -> None:
    async def hear_nothing(_request: object) -> None:
        await asyncio.Event().wait()

    cluster = client.broker.cluster
    await create(client, "t", (1, 0))
    cluster.brokers[1].kill()
    await cluster.settle()
    await cluster.start(1)
    await write_isr(client, "0,1")
    monkeypatch.setattr(client.broker, "send", hear_nothing)
    request = ElectLeadersRequest(topic_partitions=[of("t", 0)], timeout_ms=0)
    response = await client.ask(handle, request, 2)
    (row,) = response.replica_election_results[0].partition_result
    assert row.error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_an_unknown_kind_of_election_is_refused(client: AdminClient) -> None:
    request = ElectLeadersRequest(election_type=7, topic_partitions=[of("t", 0)])
    response = await client.ask(handle, request, 1)
    (row,) = response.replica_election_results[0].partition_result
    assert (response.error_code, row.error_code, row.error_message) == (-1, -1, None)
    await create(client, "t", (0,))
    request = ElectLeadersRequest(election_type=7, topic_partitions=None)
    response = await client.ask(handle, request, 1)
    assert (response.error_code, response.replica_election_results) == (-1, [])
