"""The features of a cluster of real brokers, asked for over connections."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.update_features import UpdateFeaturesRequest
from kbroker.server.local_cluster import LocalCluster
from kbroker.server.local_configs import configs_of_brokers
from kbroker.server.start_error import StartError
from kbroker.zk.nodes.features import encode_features
from kbroker.zk.tree import Tree
from kbroker.zk.zk_paths import FEATURE
from tests.integration.local_cluster_client import PATIENCE_S, Cluster, until

BROKERS = 2
LACKING = "does not support: group.version 1"


def run(directory: Path, main: Callable[[Cluster, Tree], Awaitable[None]]) -> None:
    async def with_cluster() -> None:
        values = {"log.dirs": str(directory), "listeners": "PLAINTEXT://127.0.0.1:0"}
        config = KafkaConfig.for_profile("dev", values)
        local = LocalCluster(configs_of_brokers(config, BROKERS), str(directory))
        await local.startup()
        try:
            assert local.store is not None
            await main(Cluster(local), local.store.session())
        finally:
            await local.shutdown()

    asyncio.run(with_cluster())


async def shown_epoch(cluster: Cluster, number: int, expected: int) -> int | None:
    """The epoch that a broker shows, None while it is another one."""
    request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    answer = await cluster.ask(number, request)
    assert (answer.supported_features, answer.finalized_features) == ([], [])
    return expected if answer.finalized_features_epoch == expected else None


def test_every_broker_shows_the_epoch_of_the_node(tmp_path: Path) -> None:
    async def main(cluster: Cluster, tree: Tree) -> None:
        for number in range(BROKERS):
            assert await until(lambda n=number: shown_epoch(cluster, n, 0)) == 0
        await tree.set(FEATURE, encode_features({}))
        for number in range(BROKERS):
            assert await until(lambda n=number: shown_epoch(cluster, n, 1)) == 1

    run(tmp_path, main)


def test_only_the_controller_takes_updates(tmp_path: Path) -> None:
    async def main(cluster: Cluster, tree: Tree) -> None:
        update = UpdateFeaturesRequest.FeatureUpdateKey(
            feature="group.version", max_version_level=1
        )
        request = UpdateFeaturesRequest(feature_updates=[update])
        other = 1 - cluster.controller

        refused = await cluster.ask(other, request, 1)
        answered = await cluster.ask(cluster.controller, request, 1)

        assert (refused.error_code, refused.results) == (ErrorCode.NOT_CONTROLLER, [])
        assert [row.error_code for row in answered.results] == [ErrorCode.INVALID_REQUEST]

    run(tmp_path, main)


def test_a_broker_does_not_go_on_where_it_lacks_a_level_nor_starts_again(tmp_path: Path) -> None:
    async def main(cluster: Cluster, tree: Tree) -> None:
        await cluster.local.stop_broker(1)
        await tree.set(FEATURE, encode_features({"group.version": 1}))

        with pytest.raises(StartError, match=LACKING):
            await cluster.local.start_broker(1)
        async with asyncio.timeout(PATIENCE_S):
            await cluster.local.failed.wait()

        assert LACKING in str(cluster.local.failure)

    run(tmp_path, main)
