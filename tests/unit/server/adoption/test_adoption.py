"""Carrying an adoption out: what stands in the tree afterwards, and that it is all or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import TypeVar
from uuid import UUID

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError
from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.log.disk.checkpoint import EpochEntry, write_leader_epochs, write_partition_metadata
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.model import TopicPartition
from kbroker.record.record_batch import Record, build
from kbroker.server.adoption import kraft_records as kinds
from kbroker.server.adoption.adopt_option import AdoptionNeededError, AdoptOption
from kbroker.server.adoption.gate import AdoptionGate
from kbroker.server.adoption.kraft_metadata import METADATA_DIRECTORY
from kbroker.zk import zk_paths
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.nodes.entity_configs import ZkEntityConfigs
from kbroker.zk.nodes.features import ZkFeatures
from kbroker.zk.nodes.producer_id_blocks import ProducerIdBlocks
from kbroker.zk.tree import NodeExistsError
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.trees.memory_tree_files import FixedClock, MemoryTreeFiles
from tests.golden import golden_logs
from tests.unit.server.adoption.test_kraft_metadata import batch, write_log

FILES = RealFileSystem()
TOPIC_ID = UUID(int=5)
ORDERS = TopicPartition("orders", 0)
META = "version=0\nbroker.id=3\ncluster.id=old-cluster\n"
BLOCK = zk_paths.PRODUCER_ID_BLOCK_SIZE
T = TypeVar("T")


def kafka_data(path: Path, meta: str | None = META, name: str = "orders-0") -> Path:
    directory = path / name
    directory.mkdir(parents=True)
    (directory / f"{0:020d}.log").touch()
    write_partition_metadata(FILES, str(directory), TOPIC_ID)
    write_leader_epochs(FILES, str(directory), [EpochEntry(6, 0)])
    (path / ".kafka_cleanshutdown").touch()
    if meta is not None:
        (path / "meta.properties").write_text(meta)
    return path


def adoption(
    *paths: Path, is_agreed: bool = True, cluster_id: str | None = None, **settings: str
) -> AdoptionGate:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    named["log.dirs"] = ",".join(map(str, paths))
    config = KafkaConfig.for_profile("dev", named)
    wish = AdoptOption(config=config, is_agreed=is_agreed, cluster_id=cluster_id)
    return AdoptionGate(wish, FILES)


async def carry_out(
    wish: AdoptionGate, look: Callable[[ZkUtils], T], files: MemoryTreeFiles | None = None
) -> tuple[str, T]:
    zk = ZkUtils(EmbeddedTree(FixedClock(), files).session(), FixedClock())
    await zk.create_persistent_paths()
    said = await wish.carry_out(zk)
    found = look(zk)
    return said, (await found if asyncio.iscoroutine(found) else found)


# ---- carried out


async def test_topics_stand_in_the_tree_with_id_leader_and_settings(tmp_path: Path) -> None:
    async def look(zk: ZkUtils) -> tuple[object, ...]:
        state = (await zk.partition_states([ORDERS]))[ORDERS].leader_and_isr
        assignment = await zk.topic_assignment("orders")
        assert assignment is not None
        settings = await ZkEntityConfigs(zk).overrides(zk_paths.TOPIC_CONFIGS, "orders")
        replicas = assignment.partitions[0].replicas
        leader = (state.leader, state.leader_epoch, state.isr)
        return assignment.topic_id, replicas, leader, settings["retention.ms"]

    said, found = await carry_out(adoption(kafka_data(tmp_path)), look)

    assert found == (TOPIC_ID, (3,), (3, 7, (3,)), "-1")
    assert said.startswith("kbroker adopted 1 topic with 1 partition")


@pytest.mark.parametrize(
    ("meta", "expected"),
    [(META, "old-cluster"), (None, "wanted"), ("version=0\nbroker.id=3\n", "wanted")],
)
async def test_the_cluster_keeps_its_id(tmp_path: Path, meta: str | None, expected: str) -> None:
    wanted = "wanted" if expected == "wanted" else None
    wish = adoption(kafka_data(tmp_path, meta), cluster_id=wanted)

    _, cluster_id = await carry_out(wish, lambda zk: zk.get_or_create_cluster_id("late"))

    assert cluster_id == expected


async def test_a_cluster_id_that_was_asked_for_must_be_the_directorys(tmp_path: Path) -> None:
    wish = adoption(kafka_data(tmp_path), cluster_id="wanted")

    with pytest.raises(LogDirectoryError, match="belongs to cluster old-cluster, but CLUSTER_ID"):
        await carry_out(wish, lambda _: None)


async def test_a_directory_without_broker_needs_a_broker_id(tmp_path: Path) -> None:
    wish = adoption(kafka_data(tmp_path, None), broker_id="-1")

    with pytest.raises(ConfigError, match=r"set broker\.id to adopt it"):
        await carry_out(wish, lambda _: None)


async def test_what_died_half_way_is_asked_for_again(tmp_path: Path) -> None:
    kafka_data(tmp_path)
    files = MemoryTreeFiles()
    await carry_out(adoption(tmp_path), lambda _: None, files)
    torn = {name: data[:-1] for name, data in files.snapshot().items()}

    with pytest.raises(AdoptionNeededError):
        await carry_out(adoption(tmp_path, is_agreed=False), lambda _: None, MemoryTreeFiles(torn))
    _, topics = await carry_out(adoption(tmp_path), lambda zk: zk.topics(), MemoryTreeFiles(torn))

    assert topics == ["orders"]


async def test_a_second_adoption_does_nothing(tmp_path: Path) -> None:
    async def again(zk: ZkUtils) -> tuple[str, list[str]]:
        kafka_data(tmp_path, name="logs-0")
        return await adoption(tmp_path).carry_out(zk), await zk.topics()

    _, (said, topics) = await carry_out(adoption(kafka_data(tmp_path)), again)

    assert said == f"--adopt has no effect: {tmp_path} has a tree of kbroker already"
    assert topics == ["orders"]


async def test_an_empty_directory_has_nothing_to_adopt(tmp_path: Path) -> None:
    said, topics = await carry_out(adoption(tmp_path), lambda zk: zk.topics())

    assert (said, topics) == (f"--adopt has no effect: {tmp_path} holds no partitions", [])


async def test_a_topic_that_is_there_already_stops_all_of_it(tmp_path: Path) -> None:
    kafka_data(tmp_path)
    kafka_data(tmp_path, name="zebra-0")
    zk = ZkUtils(EmbeddedTree(FixedClock()).session(), FixedClock())
    await zk.create_persistent_paths()
    await zk.tree.create(zk_paths.topic_path("zebra"))

    with pytest.raises(NodeExistsError):
        await adoption(tmp_path).carry_out(zk)

    assert await zk.topics() == ["zebra"]


# ---- producer ids


async def next_producer_id(zk: ZkUtils) -> int:
    return (await ProducerIdBlocks(zk).allocate(3)).first_id


async def test_producer_ids_begin_far_above_those_of_transactions(tmp_path: Path) -> None:
    kafka_data(tmp_path)
    log = kafka_data(tmp_path, name="__transaction_state-0") / "__transaction_state-0"
    values = [Struct(">hq").pack(version, id_) for version, id_ in ((0, 41), (1, 5000), (0, 7))]
    records = [Record(i, 1, b"k", value) for i, value in enumerate((*values, None))]
    (log / f"{0:020d}.log").write_bytes(build(records))

    _, first_id = await carry_out(adoption(tmp_path), next_producer_id)

    assert first_id == 5001 + 1000 * BLOCK


async def test_producer_ids_begin_far_above_those_that_kraft_has_given_out(tmp_path: Path) -> None:
    golden_logs.unpack("4.3.1-clean", tmp_path)

    _, first_id = await carry_out(adoption(tmp_path), next_producer_id)

    assert first_id == 2000 + 1000 * BLOCK


async def test_the_cluster_goes_on_with_its_levels_as_far_as_they_are_supported(
    tmp_path: Path,
) -> None:
    golden_logs.unpack("4.3.1-clean", tmp_path)

    said, node = await carry_out(adoption(tmp_path), lambda zk: ZkFeatures(zk).read())

    assert node is not None
    assert node.levels == {"group.version": 1, "transaction.version": 2}
    assert "levels of features: group.version 1, transaction.version 2" in said
    assert "levels of features that this broker does not support" in said


async def test_users_of_the_metadata_log_go_on_with_their_logins_rules_and_quotas(
    tmp_path: Path,
) -> None:
    data = kafka_data(tmp_path, META.replace("version=0", "version=1").replace("broker", "node"))
    (data / METADATA_DIRECTORY).mkdir()
    topic = kinds.TopicRecord(name="orders", topic_id=TOPIC_ID)
    login = kinds.UserScramCredentialRecord(
        name="ann @ home", mechanism=1, salt=b"salt", stored_key=b"key", server_key=b"it",
        iterations=4096,
    )  # fmt: skip
    unknown = kinds.UserScramCredentialRecord(name="bo", mechanism=9)
    quotas = [
        kinds.ClientQuotaRecord(
            entity=[kinds.ClientQuotaRecord.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity.items()],
            quota_key=key, value=value,
        )
        for entity, key, value in (
            ({"user": "ann @ home"}, "producer_byte_rate", 5.0),
            ({"client-id": "app", "user": "bo"}, "request_percentage", 12.5),
            ({"client-id": None}, "consumer_byte_rate", 7.0),
            ({"ip": "10.0.0.1"}, "connection_creation_rate", 9.0),
            ({"ip": "::1"}, "connection_creation_rate", 9.0),
            ({"planet": "earth"}, "producer_byte_rate", 9.0),
        )
    ]  # fmt: skip
    rules = [
        kinds.AccessControlEntryRecord(
            id=UUID(int=number), resource_type=2, resource_name="t", pattern_type=number,
            principal="User:ann", host="*", operation=3, permission_type=2,
        )
        for number in (3, 4)
    ]  # fmt: skip
    write_log(data / METADATA_DIRECTORY, 0, batch(0, topic, login, unknown, *rules, *quotas))

    async def look(zk: ZkUtils) -> dict[str, bytes | None]:
        for path in ("/kafka-acl/Topic/t", "/kafka-acl-extended/prefixed/Topic/t"):
            assert b'"Deny"' in ((await zk.tree.get(path))[0] or b"")
        names = await zk.tree.children("/config/users")
        places = [f"users/{name}" for name in names]
        places += ["users/bo/clients/app", "clients/<default>", "ips/10.0.0.1"]
        assert len(await zk.tree.children("/config/ips")) == 1
        return {place: (await zk.tree.get(f"/config/{place}"))[0] for place in places}

    said, users = await carry_out(adoption(data), look)

    assert "1 user with SCRAM logins" in said
    assert "2 rules of access" in said
    assert "4 quotas" in said
    assert "quotas that the tree cannot have (2)" in said
    assert users == {
        "users/ann%20%40%20home": b'{"version":1,"config":{"SCRAM-SHA-256":"salt=c2FsdA==,'
        b'stored_key=a2V5,server_key=aXQ=,iterations=4096","producer_byte_rate":"5"}}',
        "users/bo": None,
        "users/bo/clients/app": b'{"version":1,"config":{"request_percentage":"12.5"}}',
        "clients/<default>": b'{"version":1,"config":{"consumer_byte_rate":"7"}}',
        "ips/10.0.0.1": b'{"version":1,"config":{"connection_creation_rate":"9"}}',
    }
