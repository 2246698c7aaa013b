"""A broker follows the features of its cluster, as far as it supports them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from kbroker.admin.finalized_feature_change_listener import (
    FinalizedFeatureChangeListener,
    UnsupportedFeaturesError,
)
from kbroker.model import FinalizedFeatures, SupportedFeature
from kbroker.peers.metadata_waiter import MetadataWaiter
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.nodes.features import encode_features
from kbroker.zk.tree import Tree
from kbroker.zk.zk_paths import FEATURE
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.trees.memory_tree_files import FixedClock


class Follower:
    """A broker that supports levels 0 to 2 of one feature."""

    def __init__(self) -> None:
        self.metadata = MetadataCache(0)
        self.metadata.supported_features = (SupportedFeature("a", 0, 2),)
        self.tree: Tree = EmbeddedTree(FixedClock()).session()
        self.refused: list[UnsupportedFeaturesError] = []
        self.listener = FinalizedFeatureChangeListener(
            ZkUtils(self.tree, FixedClock()),
            self.metadata,
            MetadataWaiter(),
            self.refused.append,
        )

    @property
    def shown(self) -> FinalizedFeatures:
        return self.metadata.finalized_features


@pytest.fixture
async def follower() -> AsyncIterator[Follower]:
    follower = Follower()
    yield follower
    await follower.listener.stop()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_what_comes_changes_and_goes_is_shown(follower: Follower) -> None:
    tree = follower.tree
    await follower.listener.start()
    seen = [follower.shown]
    await tree.create(FEATURE, encode_features({"a": 1}))
    await settle()
    seen.append(follower.shown)
    await tree.set(FEATURE, encode_features({"a": 2}))
    await settle()
    seen.append(follower.shown)
    await tree.set(FEATURE, b'{"features":{},"version":2,"status":0}')
    await settle()
    seen.append(follower.shown)
    await tree.delete(FEATURE)
    await settle()

    unknown = FinalizedFeatures({}, -1)
    known = [FinalizedFeatures({"a": 1}, 0), FinalizedFeatures({"a": 2}, 1)]
    assert [*seen, follower.shown] == [unknown, *known, unknown, unknown]


async def test_a_broker_does_not_start_where_it_lacks_a_level(follower: Follower) -> None:
    await follower.tree.create(FEATURE, encode_features({"a": 3, "b": 1}))

    with pytest.raises(UnsupportedFeaturesError, match=r"does not support: a 3, b 1\. Lower"):
        await follower.listener.start()


async def test_a_running_broker_says_that_it_lacks_a_level(follower: Follower) -> None:
    await follower.tree.create(FEATURE, encode_features({"a": 1}))
    await follower.listener.start()
    await follower.tree.set(FEATURE, encode_features({"a": 3}))
    await settle()

    assert len(follower.refused) == 1
    assert follower.shown == FinalizedFeatures({"a": 1}, 0)


async def test_a_node_that_cannot_be_read_changes_nothing(follower: Follower) -> None:
    await follower.tree.create(FEATURE, encode_features({"a": 1}))
    await follower.listener.start()
    await follower.tree.set(FEATURE, b"?")
    await settle()
    assert follower.shown == FinalizedFeatures({"a": 1}, 0)

    await follower.tree.set(FEATURE, encode_features({"a": 2}))
    await settle()
    assert follower.shown == FinalizedFeatures({"a": 2}, 2)
