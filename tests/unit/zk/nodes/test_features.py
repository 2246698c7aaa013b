"""The node of the cluster's features: its bytes, and who may write it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.nodes.features import FeatureZnode, ZkFeatures, decode_features, encode_features
from kbroker.zk.tree import BadVersionError
from kbroker.zk.zk_paths import FEATURE
from kbroker.zk.zk_utils import ControllerMovedError, ZkUtils
from kbroker.zk.znode_json import ZnodeFormatError
from tests.fakes.trees.memory_tree_files import FixedClock

RECORDED = Path(__file__).parents[3] / "golden" / "zookeeper" / "tree-3.9.2.jsonl"
VERSION_1 = (
    b'{"features":{"a":{"max_version_level":3,"min_version_level":2}},"version":1,"status":1}'
)
VERSION_2 = b'{"features":{"a":{"max_version_level":3}},"version":2,"status":1}'


def test_a_new_cluster_has_the_node_of_kafka() -> None:
    nodes = map(json.loads, RECORDED.read_text().splitlines())
    recorded = next(node["data"] for node in nodes if node["path"] == FEATURE)

    assert encode_features({}) == recorded.encode()


def test_levels_are_written_as_version_2() -> None:
    assert encode_features({"a": 3}) == VERSION_2


@pytest.mark.parametrize(("data", "version"), [(VERSION_1, 1), (VERSION_2, 2)])
def test_both_versions_are_read(data: bytes, version: int) -> None:
    assert decode_features(data, 7) == FeatureZnode(levels={"a": 3}, version=version, epoch=7)


def test_a_disabled_node_says_so() -> None:
    assert not decode_features(VERSION_2.replace(b'"status":1', b'"status":0'), 0).is_enabled


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"[]",
        b'{"features":{},"version":2}',
        b'{"features":{},"version":3,"status":1}',
        b'{"features":{},"version":2,"status":2}',
        b'{"version":2,"status":1}',
        b'{"features":[],"version":2,"status":1}',
        b'{"features":{"a":{}},"version":2,"status":1}',
        b'{"features":{"a":{"max_version_level":0}},"version":2,"status":1}',
        b'{"features":{"a":{"max_version_level":32768}},"version":2,"status":1}',
        b'{"features":{"a":{"max_version_level":1}},"version":1,"status":1}',
        VERSION_1.replace(b"3", b"1"),
    ],
)
def test_what_kafka_would_not_write_is_refused(data: bytes | None) -> None:
    with pytest.raises(ZnodeFormatError, match=FEATURE):
        decode_features(data, 0)


async def test_writes_are_fenced_by_controller_and_by_epoch() -> None:
    zk = ZkUtils(EmbeddedTree(FixedClock()).session(), FixedClock())
    stored = ZkFeatures(zk)
    assert await stored.read() is None
    _, epoch_version = await zk.register_controller_and_raise_epoch(0)
    await stored.create({})

    assert await stored.write({"a": 1}, 0, epoch_version) == 1
    assert await stored.read() == FeatureZnode(levels={"a": 1}, epoch=1)
    with pytest.raises(BadVersionError):
        await stored.write({"a": 2}, 0, epoch_version)
    with pytest.raises(ControllerMovedError):
        await stored.write({"a": 2}, 1, epoch_version - 1)
