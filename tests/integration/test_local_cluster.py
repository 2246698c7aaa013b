"""Several brokers in one process over one tree: topics spread over them, asked through any of them,
and what happens to the others when one is stopped or killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ErrorCode
from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from kbroker.protocol.schema import Message
from kbroker.server.broker.broker_state import BrokerState
from kbroker.server.broker.kafka_server import KafkaServer
from kbroker.server.metadata_tree.cluster_tree import SharedTree
from kbroker.server.metadata_tree.tree_location import TreeLocation, write_location
from kbroker.server.start.local_cluster import LocalCluster
from kbroker.server.start.local_configs import configs_of_brokers
from kbroker.server.start_error import BrokerIdInUseError, StartError
from tests.fakes.running.waiting import PATIENCE_S, until
from tests.integration.local_cluster_client import Cluster, running

BROKERS = 3


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running(tmp_path, brokers=BROKERS) as cluster:
        yield cluster


async def test_every_broker_tells_the_same_and_each_leads_its_share(cluster: Cluster) -> None:
    async def same(cluster: Cluster, number: int, leaders: dict[int, int]) -> bool:
        return await cluster.leaders(number, "t") == leaders

    follower = (cluster.controller + 1) % BROKERS

    assert await cluster.create("t", 6, through=follower) is ErrorCode.NONE

    leaders = await cluster.leaders(0, "t")
    assert sorted(leaders.values()) == [0, 0, 1, 1, 2, 2]
    for number in range(1, BROKERS):
        assert await until(lambda n=number: same(cluster, n, leaders))
    for partition, leader in leaders.items():
        other = (leader + 1) % BROKERS
        assert await cluster.produce(other, "t", partition, b"v") is (
            ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        assert await cluster.produce(leader, "t", partition, b"v") is ErrorCode.NONE
        assert await cluster.end_offset(leader, "t", partition) == (ErrorCode.NONE, 1)


async def test_groups_have_their_coordinators_on_different_brokers(cluster: Cluster) -> None:
    async def committed(cluster: Cluster, home: int, commit: Message) -> ErrorCode | None:
        answer = await cluster.ask(home, commit, 7)
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        return None if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else code

    assert await cluster.create("t", 1) is ErrorCode.NONE
    groups = [f"group-{n}" for n in range(12)]

    homes = {group: await cluster.coordinator(0, group) for group in groups}

    assert set(homes.values()) == {0, 1, 2}
    for group, home in homes.items():
        assert await cluster.coordinator((home + 1) % BROKERS, group) == home
        commit = OffsetCommitRequest(
            group_id=group,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        OffsetCommitRequest.OffsetCommitRequestPartition(
                            partition_index=0, committed_offset=home
                        )
                    ],
                )
            ],
        )
        answer = await until(lambda h=home, c=commit: committed(cluster, h, c))
        assert answer is ErrorCode.NONE
        wrong = await cluster.ask((home + 1) % BROKERS, commit, 7)
        assert wrong.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        fetch = OffsetFetchRequest(
            group_id=group,
            topics=[OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[0])],
        )
        found = await cluster.ask(home, fetch, 7)
        assert found.topics[0].partitions[0].committed_offset == home


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_when_the_controller_goes_another_one_takes_over_and_its_partitions_come_back_with_it(
    how: str, cluster: Cluster
) -> None:
    async def new_controller(cluster: Cluster, first: int) -> int | None:
        return next((n for n, s in enumerate(cluster.local.servers) if s and s.is_controller), None)

    async def leader_of(
        cluster: Cluster, through: int, partition: int, expected: int
    ) -> int | None:
        leader = (await cluster.leaders(through, "t"))[partition]
        return leader if leader == expected else None

    assert await cluster.create("t", 3) is ErrorCode.NONE
    leaders = await cluster.leaders(0, "t")
    first = cluster.controller
    epoch = cluster.server(first).broker_epoch
    partition = next(p for p, leader in leaders.items() if leader == first)
    assert await cluster.produce(first, "t", partition, b"kept") is ErrorCode.NONE

    if how == "stopped":
        await cluster.local.stop_broker(first)
    else:
        await cluster.local.kill_broker(first)

    second = await until(lambda: new_controller(cluster, first))
    offline = await until(lambda: leader_of(cluster, second, partition, -1))
    assert offline == -1
    assert await cluster.create("meanwhile", 2, through=second) is ErrorCode.NONE

    server = await cluster.local.start_broker(first)

    assert server.broker_epoch > epoch
    assert cluster.controller == second
    assert await until(lambda: leader_of(cluster, second, partition, first)) == first
    assert await cluster.end_offset(first, "t", partition) == (ErrorCode.NONE, 1)
    assert set((await cluster.leaders(first, "meanwhile")).values()) == {
        n for n in range(BROKERS) if n != first
    }


async def test_a_cluster_comes_back_with_all_it_had(tmp_path: Path) -> None:
    async with running(tmp_path, brokers=BROKERS) as cluster:
        assert await cluster.create("t", 3) is ErrorCode.NONE
        for partition, leader in (await cluster.leaders(0, "t")).items():
            assert await cluster.produce(leader, "t", partition, b"v") is ErrorCode.NONE
    assert sorted(path.name for path in tmp_path.glob("broker-*")) == [
        "broker-0", "broker-1", "broker-2"
    ]  # fmt: skip
    async with running(tmp_path, brokers=BROKERS) as cluster:
        # A broker that serves leads what only it can lead; others hear of it a moment later.
        for partition, leader in (await cluster.all_leaders(2, "t")).items():
            assert await cluster.end_offset(leader, "t", partition) == (ErrorCode.NONE, 1)


async def test_a_cluster_that_stops_does_not_wait_for_leaders_that_stop_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, brokers=BROKERS) as cluster:
        assert await cluster.create("t", 3, replicas=2) is ErrorCode.NONE
        for partition, leader in (await cluster.leaders(0, "t")).items():
            assert await cluster.produce(leader, "t", partition, b"v") is ErrorCode.NONE
        caplog.clear()
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == []

    async with running(tmp_path, brokers=BROKERS) as cluster:
        for partition, leader in (await cluster.all_leaders(2, "t")).items():
            assert await cluster.end_offset(leader, "t", partition) == (ErrorCode.NONE, 1)


async def test_brokers_that_end_are_watched_no_longer(cluster: Cluster) -> None:
    await cluster.local.stop_broker(1)
    await cluster.local.start_broker(1)
    await cluster.local.kill_broker(2)
    await asyncio.sleep(0)

    names = [task.get_name() for task in asyncio.all_tasks()]
    watching = sorted(name for name in names if name.startswith("watch"))
    assert watching == ["watch broker 0", "watch broker 1"]


async def test_a_broker_whose_stop_fails_keeps_no_other_from_it(tmp_path: Path) -> None:
    async def fail(**_: object) -> None:
        raise RuntimeError("no stop")

    async with running(tmp_path, brokers=BROKERS) as cluster:
        local, servers = cluster.local, list(cluster.local.servers)
        failing = servers[(cluster.controller + 1) % BROKERS]
        assert failing is not None
        stop = failing.shutdown
        failing.shutdown = fail  # type: ignore[method-assign]

        with pytest.raises(RuntimeError, match="no stop"):
            await local.shutdown()

        states = [server.lifecycle.state for server in servers if server not in (None, failing)]
        assert states == [BrokerState.NOT_RUNNING] * (BROKERS - 1)
        await stop()

    async with running(tmp_path, brokers=BROKERS):
        pass  # the directory is not locked any more


async def test_a_session_that_ends_is_followed_by_a_registration_of_a_new_epoch(
    cluster: Cluster,
) -> None:
    assert await cluster.create("t", 3) is ErrorCode.NONE
    number = (cluster.controller + 1) % BROKERS
    server = cluster.server(number)
    partition = next(p for p, n in (await cluster.leaders(0, "t")).items() if n == number)
    epoch = server.broker_epoch
    session: Any = server.parts.storage.zk.tree

    session.suspend()
    assert await cluster.produce(number, "t", partition, b"1") is ErrorCode.NONE
    session.expire()
    session.renew()

    async def registered() -> bool | None:
        return server.broker_epoch > epoch or None

    async def produced() -> bool | None:
        return await cluster.produce(number, "t", partition, b"2") is ErrorCode.NONE or None

    assert await until(registered)
    assert await until(produced)
    assert server.failure is None


async def test_a_broker_whose_id_another_one_has_taken_stops_with_a_sentence(
    tmp_path: Path, cluster: Cluster
) -> None:
    server = cluster.server(2)
    session: Any = server.parts.storage.zk.tree
    session.expire()
    other = KafkaServer(
        KafkaConfig.for_profile(
            "dev",
            {
                "broker.id": "2",
                "log.dirs": str(tmp_path / "other"),
                "listeners": "PLAINTEXT://127.0.0.1:0",
            },
        ),
        tree=SharedTree(cluster.local.store, "the tree"),
    )
    await other.startup()
    session.renew()
    async with asyncio.timeout(PATIENCE_S):
        await cluster.local.failed.wait()

    assert isinstance(cluster.local.failure, BrokerIdInUseError)
    assert "broker.id 2 is in use by a running broker" in str(cluster.local.failure)
    await other.shutdown()


async def test_a_broker_that_cannot_start_stops_all_with_its_sentence(tmp_path: Path) -> None:
    values = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
    configs = configs_of_brokers(KafkaConfig.for_profile("dev", values), BROKERS)
    (tmp_path / "broker-1").write_text("no directory")
    local = LocalCluster(configs, str(tmp_path))

    with pytest.raises(LogDirectoryError, match=f"Data directory {tmp_path}/broker-1 cannot"):
        await local.startup()

    assert local.servers == [None] * BROKERS
    assert local.failure is None


@pytest.mark.parametrize("ensemble", [{}, {"zookeeper.connect": "127.0.0.1:1/nobody-is-asked"}])
async def test_the_directory_of_a_single_broker_is_not_made_that_of_a_cluster(
    tmp_path: Path, ensemble: dict[str, str]
) -> None:
    values = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
    config = KafkaConfig.for_profile("dev", values)
    together = KafkaConfig.for_profile("dev", values | ensemble)
    single = KafkaServer(config)
    await single.startup()
    await single.shutdown()
    local = LocalCluster(configs_of_brokers(together, BROKERS), str(tmp_path))
    with pytest.raises((LogDirectoryError, StartError), match="belongs to a single broker"):
        await local.startup()


async def test_the_directory_of_one_of_several_brokers_is_told_from_that_of_a_single_one(
    cluster: Cluster, tmp_path: Path
) -> None:
    await cluster.local.shutdown()
    one = str(tmp_path / "broker-0")
    values = {"log.dirs": one, "listeners": "PLAINTEXT://127.0.0.1:0"}
    configs = configs_of_brokers(KafkaConfig.for_profile("dev", values), BROKERS)

    with pytest.raises(StartError, match=f"together with --brokers N --data {tmp_path}$"):
        await LocalCluster(configs, one).startup()


async def test_brokers_of_an_ensemble_are_not_made_those_of_a_cluster_without(
    tmp_path: Path,
) -> None:
    location = TreeLocation("127.0.0.1:1/kafka", "their-cluster")
    (tmp_path / "broker-1").mkdir()
    write_location(RealFileSystem(), str(tmp_path / "broker-1"), location)
    values = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
    configs = configs_of_brokers(KafkaConfig.for_profile("dev", values), BROKERS)

    with pytest.raises(StartError, match=f"metadata of {tmp_path}/broker-1 is in ZooKeeper"):
        await LocalCluster(configs, str(tmp_path)).startup()

    assert {path.name for path in tmp_path.iterdir()} == {".lock", "broker-1"}
