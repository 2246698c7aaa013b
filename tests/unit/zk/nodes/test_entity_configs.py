"""Changes of settings: whole, over what was read, and with the notification in one transaction."""

from __future__ import annotations

import logging

import pytest

from kbroker.turns import turns
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.nodes.entity_configs import ZkEntityConfigs
from kbroker.zk.tree import NodeTooLargeError, NoNodeError
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.trees.memory_tree_files import FixedClock


@pytest.fixture
def tree() -> EmbeddedTree:
    return EmbeddedTree(FixedClock())


@pytest.fixture
async def zk(tree: EmbeddedTree) -> ZkUtils:
    zk = ZkUtils(tree.session(), FixedClock())
    await zk.create_persistent_paths()
    await zk.tree.create("/brokers/topics/t")
    return zk


@pytest.fixture(autouse=True)
def configs(zk: ZkUtils) -> ZkEntityConfigs:
    return ZkEntityConfigs(zk)


async def changes(tree: EmbeddedTree) -> list[bytes | None]:
    session = tree.session()
    names = await session.children("/config/changes")
    return [(await session.get(f"/config/changes/{name}"))[0] for name in names]


async def test_settings_and_their_notification_are_one_transaction_with_kafkas_bytes(
    configs: ZkEntityConfigs, tree: EmbeddedTree
) -> None:
    before = tree.zxid
    await configs.update("topics", "t", lambda _: {"retention.ms": "5"})
    await configs.update("topics", "t", lambda old: old | {"a": "1"})
    assert tree.zxid == before + 2
    data, _ = await tree.session().get("/config/topics/t")
    assert data == b'{"version":1,"config":{"a":"1","retention.ms":"5"}}'
    assert await changes(tree) == [b'{"version":2,"entity_path":"topics/t"}'] * 2
    assert await configs.overrides("topics", "t") == {"retention.ms": "5", "a": "1"}
    assert await configs.entities("topics") == ["t"]


async def test_many_are_read_in_turns(configs: ZkEntityConfigs) -> None:
    names = [f"u{number}" for number in range(600)]
    await configs.update("users", "u599", lambda _: {"a": "1"})
    given = turns().given

    found = await configs.all_overrides("users", names)

    assert found == {name: {} for name in names} | {"u599": {"a": "1"}}
    assert turns().given > given


async def test_of_two_changes_at_once_none_is_lost(
    configs: ZkEntityConfigs, zk: ZkUtils, tree: EmbeddedTree
) -> None:
    others = [ZkEntityConfigs(ZkUtils(tree.session(), FixedClock())) for _ in range(2)]
    pending = [
        lambda: others[0].update("brokers", "0", lambda old: old | {"first": "1"}),
        lambda: others[1].update("brokers", "0", lambda old: old | {"second": "1"}),
    ]
    multi = zk.tree.multi

    async def late(ops: object) -> object:
        while pending:
            await pending.pop()()
        return await multi(ops)  # type: ignore[arg-type]

    zk.tree.multi = late  # type: ignore[method-assign,assignment]
    await configs.update("brokers", "0", lambda old: old | {"third": "1"})
    assert set(await configs.overrides("brokers", "0")) == {"first", "second", "third"}


async def test_a_refusal_and_a_topic_that_is_gone_leave_nothing(
    configs: ZkEntityConfigs, tree: EmbeddedTree
) -> None:
    def refuse(_: dict[str, str]) -> dict[str, str]:
        raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        await configs.update("topics", "t", refuse)
    with pytest.raises(NoNodeError):
        await configs.update("topics", "gone", lambda _: {"a": "1"})
    with pytest.raises(NodeTooLargeError):
        await configs.update("topics", "t", lambda _: {"a": "x" * (1 << 20)})
    assert await changes(tree) == []
    assert await configs.entities("topics") == []


async def test_parents_removed_by_hand_are_made_anew(
    configs: ZkEntityConfigs, tree: EmbeddedTree
) -> None:
    session = tree.session()
    for path in ("/config/changes", "/config/topics", "/config/users"):
        await session.delete(path)
    await configs.update("topics", "t", lambda _: {"a": "1"})
    await configs.update("users", "u/clients/c", lambda _: {"a": "1"})
    assert await configs.overrides("users", "u/clients/c") == {"a": "1"}
    assert len(await changes(tree)) == 2


async def test_nothing_is_made_for_nobody(configs: ZkEntityConfigs, tree: EmbeddedTree) -> None:
    for name in ("u", "u/clients/c"):
        await configs.update("users", name, lambda _: {})
    assert await tree.session().children("/config/users") == []
    assert len(await changes(tree)) == 2  # as Apache Kafka tells brokers of it


async def test_what_holds_nothing_else_goes_with_the_last_one_in_it(
    configs: ZkEntityConfigs, tree: EmbeddedTree
) -> None:
    session = tree.session()
    for name in ("u/clients/c", "u/clients/d", "own/clients/c", "odd/clients/c"):
        await configs.update("users", name, lambda _: {"a": "1"})
    await configs.update("users", "own", lambda _: {"b": "1"})
    await session.set("/config/users/odd", b"{")

    await configs.update("users", "u/clients/c", lambda _: {})
    assert await session.children("/config/users/u/clients") == ["d"]

    for name in ("u", "own", "odd"):
        await configs.update("users", f"{name}/clients/{'d' if name == 'u' else 'c'}", lambda _: {})
    assert sorted(await session.children("/config/users")) == ["odd", "own"]
    assert await session.children("/config/users/own") == []
    assert await session.children("/config/users/odd") == []  # nobody knows what it holds


@pytest.mark.parametrize("other", ["u/clients/d", "u"])
async def test_what_gets_something_meanwhile_stays(
    other: str, configs: ZkEntityConfigs, zk: ZkUtils, tree: EmbeddedTree
) -> None:
    await configs.update("users", "u/clients/c", lambda _: {"a": "1"})
    others = [ZkEntityConfigs(ZkUtils(tree.session(), FixedClock()))]
    multi = zk.tree.multi

    async def late(ops: object) -> object:
        if others:
            await others.pop().update("users", other, lambda _: {"b": "1"})
        return await multi(ops)  # type: ignore[arg-type]

    zk.tree.multi = late  # type: ignore[method-assign,assignment]
    await configs.update("users", "u/clients/c", lambda _: {})
    assert await configs.overrides("users", other) == {"b": "1"}
    assert await configs.overrides("users", "u/clients/c") == {}


@pytest.mark.parametrize("name", ["u", "u/clients/c"])
async def test_a_change_over_a_node_that_went_and_came_again_is_made_anew(
    name: str, configs: ZkEntityConfigs, zk: ZkUtils, tree: EmbeddedTree
) -> None:
    await configs.update("users", name, lambda _: {"a": "1"})
    other = ZkEntityConfigs(ZkUtils(tree.session(), FixedClock()))
    multi, rounds = zk.tree.multi, iter(range(2))

    async def late(ops: object) -> object:
        for _ in rounds:  # the node has the version that was read, as all have that are new
            await other.update("users", name, lambda _: {})
            await other.update("users", name, lambda _: {"b": "2"})
        return await multi(ops)  # type: ignore[arg-type]

    zk.tree.multi = late  # type: ignore[method-assign,assignment]
    await configs.update("users", name, lambda old: old | {"c": "3"})
    assert await configs.overrides("users", name) == {"b": "2", "c": "3"}


async def test_nodes_that_nobody_can_read_are_reported_left_out_and_can_be_replaced(
    caplog: pytest.LogCaptureFixture, configs: ZkEntityConfigs, tree: EmbeddedTree
) -> None:
    with caplog.at_level(logging.ERROR):
        await configs.update("topics", "t", lambda _: {"a": "1"})
        for name, data in (("u", b"{"), ("v", b'{"config":[]}'), ("w", b'{"config":{"a":null}}')):
            await tree.session().create(f"/config/topics/{name}", data)
            await tree.session().create(f"/brokers/topics/{name}")
        names = await configs.entities("topics")
        for _ in range(2):
            assert await configs.all_overrides("topics", names) == {"t": {"a": "1"}}
        assert await configs.overrides("topics", "u") == {}
        await configs.update("topics", "u", lambda old: old | {"b": "2"})
        assert await configs.overrides("topics", "u") == {"b": "2"}

    assert len(caplog.messages) == 3
