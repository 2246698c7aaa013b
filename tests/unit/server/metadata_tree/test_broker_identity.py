"""Which ids a broker goes by."""

from __future__ import annotations

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError
from kbroker.log.disk.checkpoint import MetaProperties
from kbroker.server.metadata_tree.broker_identity import (
    BrokerIdentity,
    check_cluster_id,
    config_of_broker,
    settle_identity,
)
from kbroker.server.start_error import InconsistentClusterIdError
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.trees.memory_tree_files import FixedClock

META = MetaProperties(1, "cluster", 7)


async def identity(
    meta: MetaProperties | None,
    profile: str = "dev",
    wanted: str | None = None,
    is_ensemble: bool = False,
    **settings: str,
) -> BrokerIdentity:
    config = KafkaConfig.for_profile(
        profile, {name.replace("_", "."): value for name, value in settings.items()}
    )

    zk = ZkUtils(EmbeddedTree(FixedClock()).session(), FixedClock())
    await zk.create_persistent_paths()
    return await settle_identity(config, zk, meta, wanted, is_ensemble=is_ensemble)


async def test_the_directorys_ids_count_where_nobody_wished_for_others() -> None:
    assert await identity(META) == BrokerIdentity("cluster", 7)


async def test_an_id_that_was_set_counts() -> None:
    assert (await identity(META, broker_id="3")).broker_id == 3


async def test_a_new_directory_gets_the_profiles_id_and_the_cluster_that_was_wanted() -> None:
    assert await identity(None, wanted="mine") == BrokerIdentity("mine", 0)


async def test_without_a_profiles_id_one_is_drawn_or_demanded() -> None:
    assert (await identity(None, "prod")).broker_id == 1001
    with pytest.raises(ConfigError, match=r"broker\.id is not set"):
        await identity(None, "prod", broker_id_generation_enable="false")


def test_the_settings_tell_the_id_in_force() -> None:
    config = KafkaConfig.for_profile("dev")

    changed = config_of_broker(config, 7)

    assert (changed.server.broker_id, changed.server.node_id) == (7, 7)
    assert changed.origins == config.origins
    assert config_of_broker(config, 0) is config


async def test_a_broker_of_an_ensemble_is_given_an_id_of_its_own_unless_one_was_chosen() -> None:
    assert (await identity(None, is_ensemble=True)).broker_id == 1001
    assert (await identity(META, is_ensemble=True)).broker_id == 7
    assert (await identity(META, is_ensemble=True, broker_id="3")).broker_id == 3


async def test_an_id_that_another_broker_may_be_given_is_refused_in_an_ensemble() -> None:
    with pytest.raises(ConfigError, match=r"broker\.id=1001 is above reserved\.broker\.max\.id"):
        await identity(None, is_ensemble=True, broker_id="1001")
    free = {"broker_id_generation_enable": "false", "broker_id": "1001"}
    assert (await identity(None, is_ensemble=True, **free)).broker_id == 1001


async def check(meta: MetaProperties | None, cluster_id: str | None) -> None:
    zk = ZkUtils(EmbeddedTree(FixedClock()).session(), FixedClock())
    if cluster_id is not None:
        await zk.get_or_create_cluster_id(cluster_id)
    await check_cluster_id(zk, meta, "/data", "ZooKeeper at zk:2181")


async def test_the_directory_of_another_cluster_is_refused() -> None:
    await check(META, "cluster")
    await check(None, "other")
    await check(None, None)
    with pytest.raises(InconsistentClusterIdError, match="cluster, but ZooKeeper at zk:2181 holds"):
        await check(META, "other")
    with pytest.raises(InconsistentClusterIdError, match="holds no cluster yet: check the address"):
        await check(META, None)
