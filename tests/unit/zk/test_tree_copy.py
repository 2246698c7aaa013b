"""One tree is brought into another: whole, repeatable, and never over what it is not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kbroker.zk import copy_mark, tree_copy, zk_paths
from kbroker.zk.copy_mark import UNFINISHED_COPY
from kbroker.zk.embedded.embedded_tree import EmbeddedTree, TreeSession
from kbroker.zk.nodes.broker_sequence import generate_broker_id
from kbroker.zk.nodes.entity_configs import ZkEntityConfigs
from kbroker.zk.tree import Op, OpResult, TreeError, TreeUnavailableError
from kbroker.zk.tree_copy import CopyRefusedError
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.trees.memory_tree_files import FixedClock

GOLDEN = Path(__file__).parents[2] / "golden" / "zookeeper" / "tree-3.9.2.jsonl"
APACHE = {
    node["path"]: node
    for node in map(json.loads, GOLDEN.read_text().splitlines())
    if node["path"] != "/"
}


@pytest.fixture
async def source() -> TreeSession:
    """Apache Kafka 3.9.2 wrote it; its brokers are stopped."""
    return await tree_with(
        {path: node["data"] for path, node in APACHE.items() if not node["ephemeral"]}
    )


@pytest.fixture
def target() -> TreeSession:
    """An empty one."""
    return EmbeddedTree(FixedClock()).session()


async def tree_with(nodes: Mapping[str, str | None]) -> TreeSession:
    session = EmbeddedTree(FixedClock()).session()
    for path, data in nodes.items():
        await session.create(path, None if data is None else data.encode(), make_parents=True)
    return session


async def copy(source: TreeSession, target: TreeSession, *, replace: bool = False) -> None:
    images = [await tree_copy.read_tree(tree) for tree in (source, target)]
    plan = tree_copy.plan_copy(*images, replace=replace)
    if not plan.is_empty:
        await tree_copy.carry_out(target, plan)


async def nodes_and_stats(tree: TreeSession, path: str = "/") -> dict[str, tuple[Any, ...]]:
    """All there is, with the numbers of its last changes: two looks are equal if none came."""
    found: dict[str, tuple[Any, ...]] = {path: await tree.get(path)}
    for name in await tree.children(path):
        found |= await nodes_and_stats(tree, f"{path.rstrip('/')}/{name}")
    return found


async def nodes_of(tree: TreeSession) -> dict[str, bytes | None]:
    return {
        path: data
        for path, (data, _) in (await nodes_and_stats(tree)).items()
        if path != "/" and "changes/" not in path
    }


async def test_everything_but_notifications_arrives_as_it_was(
    source: TreeSession, target: TreeSession
) -> None:
    assert await source.children("/config/changes") != []
    of_group = ZkEntityConfigs(ZkUtils(source, FixedClock())).update
    await of_group("groups", "a%2Fb", lambda _: {"consumer.session.timeout.ms": "50000"})
    await copy(source, target)
    assert await nodes_of(target) == await nodes_of(source)
    assert await target.children("/config/changes") == []
    assert not await copy_mark.is_unfinished(target)


async def test_ephemeral_nodes_and_zookeepers_own_stay(
    source: TreeSession, target: TreeSession
) -> None:
    await source.create("/controller", b"{}", ephemeral=True)
    await source.create("/zookeeper/quota", make_parents=True)
    await copy(source, target)
    assert await target.exists("/controller") is None
    assert await target.exists("/zookeeper") is None


async def test_broker_ids_go_on_where_the_source_was(
    source: TreeSession, target: TreeSession
) -> None:
    given = [await generate_broker_id(ZkUtils(source, FixedClock()), 1000) for _ in range(3)]
    await copy(source, target)
    assert given == [1001, 1002, 1003]
    assert await generate_broker_id(ZkUtils(target, FixedClock()), 1000) == 1004


async def test_a_copy_of_what_is_there_writes_nothing(
    source: TreeSession, target: TreeSession
) -> None:
    await copy(source, target)
    before = await nodes_and_stats(target)
    await copy(source, target)
    assert await nodes_and_stats(target) == before


async def test_a_copy_that_broke_off_anywhere_is_marked_and_repeated(
    monkeypatch: pytest.MonkeyPatch, source: TreeSession, target: TreeSession
) -> None:
    left = 1
    write_all, write = target.multi_all, target.multi

    async def some(transactions: Sequence[Sequence[Op]]) -> list[list[OpResult] | TreeError]:
        nonlocal left
        done = await write_all(transactions[:left])
        left -= len(done)
        if len(done) < len(transactions):
            raise TreeUnavailableError("/")
        return done

    async def last(ops: Sequence[Op]) -> list[OpResult]:
        if not left:
            raise TreeUnavailableError("/")
        return await write(ops)

    monkeypatch.setattr(target, "multi_all", some)
    monkeypatch.setattr(target, "multi", last)
    broke_off = 0
    for attempt in range(20):
        left = 3 * attempt
        try:
            await copy(source, target)
        except TreeUnavailableError:
            broke_off += 1
            assert (await copy_mark.is_unfinished(target)) is (attempt > 0)
    assert broke_off > 3
    assert await nodes_of(target) == await nodes_of(source)


async def test_what_changed_in_the_source_after_a_copy_broke_off_arrives_too(
    source: TreeSession, target: TreeSession
) -> None:
    await copy(source, target)
    await target.create(UNFINISHED_COPY, b'{"cluster_id":"gIZxejT-SZSX6UZp8i4DvA"}')
    await source.set("/controller_epoch", b"77")
    await source.create("/brokers/topics/new", b"{}")
    await target.create("/brokers/topics/deleted/partitions/0", make_parents=True)
    await copy(source, target)
    assert await nodes_of(target) == await nodes_of(source)


async def test_another_state_of_the_same_cluster_is_given_up_only_on_demand(
    source: TreeSession, target: TreeSession
) -> None:
    await copy(source, target)
    await target.set("/controller_epoch", b"77")
    with pytest.raises(CopyRefusedError, match=r"1 node, such as /controller_epoch.*--replace"):
        await copy(source, target)
    assert (await target.get("/controller_epoch"))[0] == b"77"
    await copy(source, target, replace=True)
    assert await nodes_of(target) == await nodes_of(source)


async def refused(source: TreeSession, target: TreeSession, sentence: str) -> None:
    before = [await nodes_and_stats(tree) for tree in (source, target)]
    with pytest.raises(CopyRefusedError, match=sentence):
        await copy(source, target, replace=True)
    assert [await nodes_and_stats(tree) for tree in (source, target)] == before


async def test_another_cluster_is_never_written_over(
    source: TreeSession, target: TreeSession
) -> None:
    await target.create("/cluster/id", b'{"version":"1","id":"another"}', make_parents=True)
    await refused(source, target, "the target holds cluster another")
    await target.set("/cluster/id", b"{")
    await refused(source, target, "id cannot be read: /cluster/id")


async def test_a_copy_of_another_cluster_that_broke_off_is_never_written_over(
    source: TreeSession, target: TreeSession
) -> None:
    await target.create(UNFINISHED_COPY, b'{"cluster_id":"another"}')
    await refused(source, target, "the target holds cluster another")
    await refused(target, source, "the source holds no cluster")


async def test_nodes_of_nobody_are_never_written_over(
    source: TreeSession, target: TreeSession
) -> None:
    await target.create("/hbase")
    await refused(source, target, "the target is not empty, and holds no cluster: .*/hbase")


async def test_the_paths_of_a_broker_that_did_not_get_further_are_no_obstacle(
    source: TreeSession, target: TreeSession
) -> None:
    await ZkUtils(target, FixedClock()).create_persistent_paths()
    await copy(source, target)
    assert await nodes_of(target) == await nodes_of(source)


async def test_nothing_is_copied_from_or_to_where_brokers_run(
    source: TreeSession, target: TreeSession
) -> None:
    await source.create("/brokers/ids/3", b"{}", ephemeral=True)
    await refused(source, target, "brokers are running on the source: stop 3 first")
    await source.delete("/brokers/ids/3")
    await target.create("/brokers/ids", make_parents=True)
    await target.create("/brokers/ids/4", b"{}", ephemeral=True)
    await refused(source, target, "brokers are running on the target: stop 4 first")


async def test_a_copy_that_broke_off_is_no_source(source: TreeSession, target: TreeSession) -> None:
    await source.create(UNFINISHED_COPY, b'{"cluster_id":"gIZxejT-SZSX6UZp8i4DvA"}')
    await refused(source, target, "the source is itself an interrupted copy")


async def test_a_mark_that_says_nothing_is_named(source: TreeSession, target: TreeSession) -> None:
    await target.create(UNFINISHED_COPY, b"no JSON")
    with pytest.raises(CopyRefusedError, match=UNFINISHED_COPY):
        await copy(source, target)


async def test_a_node_that_the_target_does_not_take_is_named(
    monkeypatch: pytest.MonkeyPatch, source: TreeSession, target: TreeSession
) -> None:
    await source.create("/brokers/topics/big", b"x" * 5000)
    monkeypatch.setattr("kbroker.zk.embedded.embedded_tree.MAX_NODE_BYTES", 4000)
    with pytest.raises(CopyRefusedError, match=r"/brokers/topics/big \(5000 bytes\)"):
        await copy(source, target)
    assert await copy_mark.is_unfinished(target)


async def test_an_image_says_what_it_holds(source: TreeSession) -> None:
    image = await tree_copy.read_tree(source)
    topics = sorted(await source.children(zk_paths.TOPICS))
    assert image.cluster_id == "gIZxejT-SZSX6UZp8i4DvA"
    assert sorted(image.topics) == topics
    assert image.partition_count == sum(path.endswith("/state") for path in APACHE)
    assert image.partitions_without([0, 1]) == 0
    assert 0 < image.partitions_without([0]) < image.partition_count
