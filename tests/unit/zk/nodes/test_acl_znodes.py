"""Nodes of access rules have the bytes of Kafka 3.9.2, as captured from real brokers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kbroker.acl.acl import (
    CLOSED,
    Acl,
    AclOperation,
    AclPattern,
    AclResourceType,
    PatternType,
    Permission,
)
from kbroker.zk.embedded.embedded_tree import EmbeddedTree, TreeSession
from kbroker.zk.nodes.acl_znodes import (
    PERSISTENT_PATHS,
    acl_path,
    can_be_kept,
    decode_acls,
    decode_change,
    encode_acls,
    encode_change,
)
from kbroker.zk.nodes.acls import EMPTY_KEPT_MS, ZkAcls
from kbroker.zk.tree import NodeTooLargeError
from kbroker.zk.zk_utils import ZkUtils
from kbroker.zk.znode_json import ZnodeFormatError
from tests.fakes.trees.memory_tree_files import FixedClock

GOLDEN = Path(__file__).parents[3] / "golden" / "zookeeper"
NODES = {
    (node["path"], node.get("data"))
    for file in GOLDEN.glob("*.jsonl")
    for node in map(json.loads, file.read_text().splitlines())
    if "kafka-acl" in node.get("path", "")
}
RULES = sorted((p, d) for p, d in NODES if d and "changes" not in p)
NEWS = sorted(d for p, d in NODES if d and "changes" in p)
PATTERN = AclPattern(AclResourceType.TOPIC, "t")
RULE = Acl("User:ann", "*", AclOperation.READ, Permission.ALLOW)


@pytest.mark.parametrize(("path", "data"), RULES)
def test_rules_are_read_and_written_to_the_byte(path: str, data: str) -> None:
    assert encode_acls(decode_acls(path, data.encode())) == data.encode()


@pytest.mark.parametrize("data", NEWS)
def test_news_of_changes_are_read_and_written_to_the_byte(data: str) -> None:
    assert encode_change(decode_change(data.encode())) == data.encode()


def test_paths_are_kafkas() -> None:
    assert len(RULES) > 4
    assert {path for path, data in NODES if not data}.issuperset(PERSISTENT_PATHS)
    paths = {acl_path(decode_change(data.encode())) for data in NEWS}
    assert paths == {path for path, _ in RULES} | {
        "/kafka-acl-extended/prefixed/TransactionalId/tx"
    }
    assert decode_change(b"Topic:a:b") == AclPattern(AclResourceType.TOPIC, "a:b")


@pytest.mark.parametrize(
    "data",
    [
        b"x", b"[]", b"{}", b'{"version":2,"acls":[]}', b'{"version":1,"acls":{}}',
        b'{"version":1,"acls":[1]}', b'{"version":1}',
        b'{"version":1,"acls":[{"principal":"ann","permissionType":"Allow","host":"*","operation":"Read"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Any","host":"*","operation":"Read"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Deny","host":"*","operation":"Fly"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Deny","host":1,"operation":"Read"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":[],"host":"*","operation":"Read"}]}',
    ],
)  # fmt: skip
async def test_a_node_that_cannot_be_read_closes_its_resource_and_is_not_changed(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    zk = ZkUtils(EmbeddedTree(FixedClock()).session(), FixedClock())
    stored = ZkAcls(zk)
    await stored.create_paths()
    await zk.tree.create("/kafka-acl/Topic/t", data)

    assert [some async for some in stored.every()] == [{PATTERN: CLOSED}]
    assert "only super users may use Topic t" in caplog.text
    refusal = (await stored.update({PATTERN: lambda _: (RULE,)}))[PATTERN]
    assert isinstance(refusal, ZnodeFormatError)
    assert (await zk.tree.get("/kafka-acl/Topic/t"))[0] == data


@pytest.mark.parametrize("data", [b"", b"Topic", b"Fish:a", b'{"version":2}', b"{", b'{"version":1,"resourceType":"TOPIC","name":"a","patternType":"ANY"}'])  # fmt: skip
def test_news_that_name_no_pattern_are_refused(data: bytes) -> None:
    with pytest.raises(ZnodeFormatError):
        decode_change(data)


def test_names_that_would_be_lost_in_the_tree_are_known() -> None:
    assert all(map(can_be_kept, ("*", "a b", "é", "...", "CN=ann,O=x")))
    assert not any(
        map(can_be_kept, ("", ".", "..", "a/b", "a\x00", "\x7f", "\ue000", "\U0001f600"))
    )


async def test_a_change_loses_none_of_the_rules_of_a_node_that_was_emptied_and_filled_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = EmbeddedTree(FixedClock())
    slow, quick = (ZkAcls(ZkUtils(tree.session(), FixedClock())) for _ in range(2))
    denial = RULE._replace(permission=Permission.DENY)
    await quick.update({PATTERN: lambda _: (RULE,)})
    multi_all = TreeSession.multi_all

    async def late(session: TreeSession, transactions: Any) -> Any:
        monkeypatch.setattr(TreeSession, "multi_all", multi_all)
        await quick.update({PATTERN: lambda _: ()})
        await quick.update({PATTERN: lambda _: (denial,)})
        return await session.multi_all(transactions)

    monkeypatch.setattr(TreeSession, "multi_all", late)
    await slow.update({PATTERN: lambda before: tuple(each for each in before if each != RULE)})

    assert await slow.read([PATTERN]) == {PATTERN: (denial,)}


async def test_nodes_without_rules_go_when_nobody_can_have_read_their_rules() -> None:
    tree = EmbeddedTree(FixedClock())
    stored = ZkAcls(ZkUtils(tree.session(), FixedClock()))
    await stored.update({PATTERN: lambda _: (RULE,)})
    await stored.update({PATTERN: lambda _: ()})
    session, emptied_ms = tree.session(), FixedClock().now_ms()
    assert (await session.get("/kafka-acl/Topic/t"))[0] == b'{"acls":[],"version":1}'

    for age_ms, left in ((EMPTY_KEPT_MS, ["t"]), (EMPTY_KEPT_MS + 1, [])):
        assert [some async for some in stored.every(emptied_ms + age_ms)] == [{PATTERN: ()}]
        assert await session.children("/kafka-acl/Topic") == left


async def test_rules_change_over_what_was_read_with_their_notification_and_none_is_lost() -> None:
    tree = EmbeddedTree(FixedClock())
    stores = [ZkAcls(ZkUtils(tree.session(), FixedClock())) for _ in range(4)]
    rules = [RULE._replace(principal=f"User:{number}") for number in range(40)]
    prefixed = AclPattern(AclResourceType.GROUP, "g", PatternType.PREFIXED)

    for number, rule in enumerate(rules):
        changes = {each: lambda before, rule=rule: (*before, rule) for each in (PATTERN, prefixed)}
        assert set((await stores[number % 4].update(changes)).values()) == {None}
    before = tree.zxid
    await stores[0].update({PATTERN: lambda before: before[::-1]})
    assert tree.zxid == before, "the same rules are not written again"
    assert await stores[1].read([PATTERN]) == {PATTERN: tuple(rules)}
    await stores[2].update({PATTERN: lambda _: ()})

    session = tree.session()
    assert await session.children("/kafka-acl/Topic") == ["t"]
    assert len(await session.children("/kafka-acl-changes")) == 41
    assert len(await session.children("/kafka-acl-extended-changes")) == 40
    await session.set("/kafka-acl/Topic/t", b"")
    await session.create("/kafka-acl/Topic/t/by-hand", b"")
    await stores[0].update({PATTERN: lambda _: (RULE,)})
    await stores[0].update({PATTERN: lambda _: ()})
    assert await stores[3].read([PATTERN]) == {PATTERN: ()}
    many = tuple(RULE._replace(principal=f"User:{'x' * 250}{number}") for number in range(4000))
    refused = await stores[0].update({prefixed: lambda _: many})
    assert isinstance(refused[prefixed], NodeTooLargeError)
