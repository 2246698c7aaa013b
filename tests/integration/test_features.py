"""The features of a cluster of real brokers, asked for over connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kbroker.errors import ErrorCode
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.update_features import UpdateFeaturesRequest
from kbroker.server.start_error import StartError
from kbroker.zk.nodes.features import encode_features
from kbroker.zk.tree import Tree
from kbroker.zk.zk_paths import FEATURE
from tests.fakes.running.waiting import PATIENCE_S, until
from tests.integration.local_cluster_client import Cluster, running

BROKERS = 2
LACKING = "does not support: group.version 2"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running(tmp_path, brokers=BROKERS) as cluster:
        yield cluster


@pytest.fixture
async def tree(cluster: Cluster) -> Tree:
    assert cluster.local.store is not None
    return cluster.local.store.session()


async def shown_epoch(cluster: Cluster, number: int, expected: int) -> int | None:
    """The epoch that a broker shows, None while it is another one."""
    request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    answer = await cluster.ask(number, request)
    return expected if answer.finalized_features_epoch == expected else None


async def test_every_broker_shows_the_epoch_of_the_node(cluster: Cluster, tree: Tree) -> None:
    for number in range(BROKERS):
        assert await until(lambda n=number: shown_epoch(cluster, n, 0)) == 0
    await tree.set(FEATURE, encode_features({"transaction.version": 1}))
    for number in range(BROKERS):
        assert await until(lambda n=number: shown_epoch(cluster, n, 1)) == 1


async def test_only_the_controller_takes_updates(cluster: Cluster) -> None:
    update = UpdateFeaturesRequest.FeatureUpdateKey(feature="group.version", max_version_level=2)
    request = UpdateFeaturesRequest(feature_updates=[update])
    other = 1 - cluster.controller

    refused = await cluster.ask(other, request, 1)
    answered = await cluster.ask(cluster.controller, request, 1)

    assert (refused.error_code, refused.results) == (ErrorCode.NOT_CONTROLLER, [])
    assert [row.error_code for row in answered.results] == [ErrorCode.INVALID_REQUEST]


async def test_a_broker_does_not_go_on_where_it_lacks_a_level_nor_starts_again(
    cluster: Cluster, tree: Tree
) -> None:
    await cluster.local.stop_broker(1)
    await tree.set(FEATURE, encode_features({"group.version": 2}))

    with pytest.raises(StartError, match=LACKING):
        await cluster.local.start_broker(1)
    async with asyncio.timeout(PATIENCE_S):
        await cluster.local.failed.wait()

    assert LACKING in str(cluster.local.failure)
