"""Whatever somebody writes into the tree by hand: that node is reported and left aside, the
controller lives, and everything else works.
"""

from __future__ import annotations

import logging

import pytest

from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.zk.embedded.embedded_tree import TreeSession
from kbroker.zk.nodes.broker_sequence import generate_broker_id
from kbroker.zk.tree import NodeExistsError
from tests.fakes.clusters.controller_cluster import ControllerCluster

GOOD_STATE = b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":3,"isr":[0]}'


@pytest.fixture
async def cluster(cluster: ControllerCluster) -> ControllerCluster:
    """Two brokers and topic `old`."""
    await create(cluster, "old")
    return cluster


@pytest.fixture
def session(cluster: ControllerCluster) -> TreeSession:
    """Of somebody with a shell."""
    return cluster.tree.session()


async def create(cluster: ControllerCluster, name: str) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=2, replication_factor=1)
    (result,) = await cluster.controller.topics.create_topics([topic], 1000, False)
    assert (result.error, result.message) == (ErrorCode.NONE, None)


async def works(cluster: ControllerCluster) -> None:
    """Topics come, grow into the metadata of every broker, and go; a broker comes and goes."""
    await create(cluster, "new")
    await cluster.start(9)
    await cluster.settle()
    states = [b.metadata.partition_states("new").values() for b in cluster.brokers.values()]
    assert [[s.leader >= 0 for s in found] for found in states] == [[True, True]] * 3
    results = await cluster.controller.topics.delete_topics(["new"], 1000)
    assert [result.error for result in results] == [ErrorCode.NONE]
    cluster.brokers[9].kill()
    await cluster.settle()


async def put(session: TreeSession, path: str, data: bytes) -> None:
    try:
        await session.create(path, data, make_parents=True)
    except NodeExistsError:
        await session.set(path, data)


JUNK = [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b"{}"]
TOPICS = [
    b'{"version":3,"partitions":[]}',
    b'{"version":3,"partitions":{"x":[0]}}',
    b'{"version":3,"partitions":{"-1":[0]}}',
    b'{"version":3,"partitions":{"0":["0"]}}',
    b'{"version":3,"partitions":{"0":0}}',
    b'{"version":3,"partitions":{"4294967296":[0]}}',
    b'{"version":3,"partitions":{"0":[4294967296]}}',
    b'{"version":3,"partitions":{"0":[0]},"topic_id":"?"}',
    b'{"version":3,"partitions":{"0":[0]},"topic_id":7}',
    b'{"version":3,"partitions":{"0":[0]},"adding_replicas":[1]}',
]
STATES = [
    b'{"controller_epoch":1,"leader":"0","leader_epoch":0,"isr":[0]}',
    b'{"controller_epoch":1,"leader":0,"leader_epoch":4294967296,"isr":[0]}',
    b'{"controller_epoch":1,"leader":0,"leader_epoch":0,"isr":0}',
    b'{"controller_epoch":1,"leader":0,"leader_epoch":0,"isr":[0.5]}',
]
BROKERS = [
    b'{"version":0,"host":"h","port":1}',
    b'{"version":"5","endpoints":["PLAINTEXT://h:1"]}',
    b'{"version":5,"endpoints":["PLAINTEXT://h:99999"]}',
    b'{"version":5,"endpoints":[7]}',
    b'{"version":5,"endpoints":["PLAINTEXT://h:1"],"listener_security_protocol_map":[]}',
    b'{"version":5,"endpoints":["PLAINTEXT://h:1"],"rack":7}',
    b'{"version":1,"host":7,"port":1}',
]
BAD = [
    *(("/brokers/topics/bad", data) for data in [*JUNK, *TOPICS]),
    *(("/brokers/topics/old/partitions/0/state", data) for data in [*JUNK, *STATES]),
    *(("/brokers/ids/7", data) for data in [*JUNK, *BROKERS]),
    ("/brokers/ids/by-hand", b""),
    ("/brokers/ids/007", b""),
    ("/brokers/ids/99999999999", b""),
    *(("/controller", data) for data in [*JUNK, b'{"brokerid":"0"}']),
]


@pytest.mark.parametrize(("path", "data"), BAD)
async def test_a_node_that_is_none_is_reported_once_and_hides_no_other(
    caplog: pytest.LogCaptureFixture,
    path: str,
    data: bytes,
    cluster: ControllerCluster,
    session: TreeSession,
) -> None:
    with caplog.at_level(logging.ERROR):
        await put(session, path, data)
        await cluster.settle()
        await works(cluster)
        await create(cluster, "second")
        assert [b.broker_id for b in await cluster.controller.zk.all_brokers()] == [0, 1]

    await cluster.stop()
    assert [text for text in caplog.messages if "failed" in text] == []


@pytest.mark.parametrize("data", [JUNK[1], TOPICS[1], STATES[0]])
async def test_a_new_controller_reports_each_bad_node_once_and_leads_the_rest(
    caplog: pytest.LogCaptureFixture, data: bytes, cluster: ControllerCluster, session: TreeSession
) -> None:
    paths = ["/brokers/topics/bad", "/brokers/topics/old/partitions/0/state", "/brokers/ids/7"]
    with caplog.at_level(logging.ERROR):
        for path in paths:
            await put(session, path, data)
        await cluster.settle()
        caplog.clear()
        cluster.controller.kill()
        await cluster.settle()
        assert cluster.controller.broker_id == 1
        for path in paths:
            assert len([text for text in caplog.messages if f"{path}:" in text]) == 1, path
        await create(cluster, "new")
        assert all(
            s.leader == 1 for s in cluster.brokers[1].metadata.partition_states("new").values()
        )


async def test_a_topic_that_is_repaired_is_led(
    cluster: ControllerCluster, session: TreeSession
) -> None:
    await put(session, "/brokers/topics/bad", b"{")
    await cluster.settle()
    await session.set("/brokers/topics/bad", b'{"version":1,"partitions":{"0":[1]}}')
    await cluster.settle()
    states = cluster.brokers[0].metadata.partition_states("bad")
    assert [state.leader for state in states.values()] == [1]


@pytest.mark.parametrize("node", ["old", "old/partitions/1/state"])
async def test_no_broker_takes_a_partition_for_deleted_whose_node_is_spoilt(
    cluster: ControllerCluster,
    session: TreeSession,
    monkeypatch: pytest.MonkeyPatch,
    node: str,
) -> None:
    """Its groups would lose the offsets that they have committed, and it its settings."""
    deleted: list[TopicPartition] = []
    metadata = cluster.brokers[1].metadata
    update = metadata.update

    def hear(request: UpdateMetadataRequest) -> list[TopicPartition]:
        deleted.extend(update(request))
        return deleted

    monkeypatch.setattr(metadata, "update", hear)
    await put(session, f"/brokers/topics/{node}", b"{")
    cluster.brokers[0].kill()
    await cluster.settle()

    assert cluster.brokers[1].controller.is_active
    assert deleted == []


async def test_a_partition_without_replicas_hides_no_other(
    caplog: pytest.LogCaptureFixture, cluster: ControllerCluster, session: TreeSession
) -> None:
    with caplog.at_level(logging.ERROR):
        await put(session, "/brokers/topics/bad", b'{"version":1,"partitions":{"0":[],"1":[1]}}')
        await cluster.settle()
        await works(cluster)

    await cluster.stop()
    assert [text for text in caplog.messages if "failed" in text] == []


@pytest.mark.parametrize(
    "path",
    [
        "/brokers/topics/old/partitions/0/state",
        "/brokers/topics/old",
        "/config/topics",
        "/config/changes",
        "/admin",
        "/brokers/seqid",
        "/latest_producer_id_block",
        "/isr_change_notification",
        "/log_dir_event_notification",
        "/brokers/ids/1",
    ],
)
async def test_a_node_that_somebody_removed_is_missed_by_nobody(
    path: str, cluster: ControllerCluster, session: TreeSession
) -> None:
    async def remove(session: TreeSession, node: str) -> None:
        for name in await session.children(node):
            await remove(session, f"{node}/{name}")
        await session.delete(node)

    await remove(session, path)
    await cluster.settle()
    await create(cluster, "new")
    assert all(s.leader >= 0 for s in cluster.brokers[0].metadata.partition_states("new").values())
    results = await cluster.controller.topics.delete_topics(["new"], 1000)
    assert [result.error for result in results] == [ErrorCode.NONE]
    assert await generate_broker_id(cluster.controller.zk, 1000) > 1000


async def test_a_state_changed_by_hand_is_taken_over_at_the_next_election(
    cluster: ControllerCluster, session: TreeSession
) -> None:
    for partition in (0, 1):
        path = f"/brokers/topics/old/partitions/{partition}/state"
        await session.set(path, GOOD_STATE)
    cluster.brokers[1].kill()
    await cluster.settle()
    old = [TopicPartition("old", partition) for partition in (0, 1)]
    states = await cluster.controller.zk.partition_states(old)
    assert min(s.leader_and_isr.leader_epoch for s in states.values()) >= 3
    await create(cluster, "new")


@pytest.mark.parametrize("data", [b"", b"x", b"-", b"99999999999"])
async def test_without_a_readable_epoch_nobody_is_controller_until_it_is_repaired(
    caplog: pytest.LogCaptureFixture, data: bytes, cluster: ControllerCluster, session: TreeSession
) -> None:
    with caplog.at_level(logging.ERROR):
        await put(session, "/controller_epoch", data)
        cluster.brokers[0].kill()
        await cluster.settle()
        assert not cluster.brokers[1].controller.is_active
        assert any("/controller_epoch" in text for text in caplog.messages)
        await session.set("/controller_epoch", b"5")
        await cluster.start(2)
        assert cluster.controller.controller.epoch == 6
        await create(cluster, "new")


async def test_a_controller_whose_epoch_was_changed_by_hand_is_one_again(
    cluster: ControllerCluster, session: TreeSession
) -> None:
    await session.set("/controller_epoch", b"41")
    topic = CreateTopicsRequest.CreatableTopic(name="new", num_partitions=1, replication_factor=1)
    await cluster.controller.topics.create_topics([topic], 1, False)
    await cluster.settle()
    assert cluster.controller.controller.epoch == 42
    states = cluster.brokers[0].metadata.partition_states("new").values()
    assert [state.leader >= 0 for state in states] == [True]
