"""An authorizer that follows the rules in its tree."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kbroker.acl.acl import (
    Acl,
    AclOperation,
    AclPattern,
    AclResource,
    AclResourceType,
    PatternType,
    Permission,
)
from kbroker.acl.acl_filter import AclFilter
from kbroker.acl.acl_rules import SuperUsers
from kbroker.admin import acl_authorizer, followed_nodes
from kbroker.admin.acl_admin import AclAdmin
from kbroker.admin.acl_authorizer import AclAuthorizer
from kbroker.ip_addresses import address_in_rules
from kbroker.turns import turns
from kbroker.zk import zk_watchers
from kbroker.zk.embedded.embedded_tree import EmbeddedTree, TreeSession
from kbroker.zk.nodes.acl_znodes import encode_acls
from kbroker.zk.nodes.acls import ZkAcls
from kbroker.zk.tree import SessionExpiredError
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.requests.recording_replier import local_connection
from tests.fakes.trees.memory_tree_files import FixedClock

TOPIC = AclResource(AclResourceType.TOPIC, "t")
PATTERN = AclPattern(*TOPIC)
OTHER = PATTERN._replace(name="other")
ALLOW = Acl("User:ANONYMOUS", "*", AclOperation.READ, Permission.ALLOW)
DENY = ALLOW._replace(permission=Permission.DENY, host="127.0.0.1")


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (zk_watchers, followed_nodes):
        monkeypatch.setattr(module, "RETRY_BACKOFF_S", 0.0)


class Cluster:
    """Two brokers' authorizers over one tree."""

    def __init__(self) -> None:
        self.tree = EmbeddedTree(FixedClock())
        self.sessions: list[TreeSession] = [self.tree.session() for _ in range(2)]
        self.brokers = [
            AclAuthorizer(ZkUtils(session, FixedClock()), FixedClock(), SuperUsers())
            for session in self.sessions
        ]
        self.stored = ZkAcls(ZkUtils(self.tree.session(), FixedClock()))

    def may_read(self) -> list[bool]:
        asked = local_connection(), AclOperation.READ, TOPIC
        return [broker.authorize(*asked) for broker in self.brokers]

    async def may_read_some_topic(self) -> bool:
        asked = local_connection(), AclOperation.READ, AclResourceType.TOPIC
        return await self.brokers[0].authorize_by_resource_type(*asked)


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never was so")


async def test_rules_are_known_from_the_start_and_changes_are_followed() -> None:
    cluster = Cluster()
    await cluster.stored.update({PATTERN: lambda _: (ALLOW,)})
    for broker in cluster.brokers:
        await broker.start()
    assert cluster.may_read() == [True, True]
    assert await cluster.may_read_some_topic()

    await cluster.brokers[0].change({PATTERN: lambda before: (*before, DENY)})
    assert not cluster.may_read()[0], "the answer leaves when it is in force here"
    await until(lambda: cluster.may_read() == [False, False])

    await cluster.brokers[1].change({PATTERN: lambda _: (ALLOW,)})
    await until(lambda: cluster.may_read() == [True, True])
    for broker in cluster.brokers:
        await broker.stop()


async def test_rules_of_many_patterns_come_into_force_at_once_with_other_work_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acl_authorizer, "REPLACED_AT_ONCE", 1)
    monkeypatch.setattr(acl_authorizer, "ENTRIES", 1)
    cluster = Cluster()
    broker = cluster.brokers[0]
    await broker.start()
    patterns = [PATTERN._replace(name=f"t{number}") for number in range(4)]
    await broker.change({PATTERN: lambda _: (ALLOW,)})
    changing = asyncio.create_task(broker.change({each: lambda _: (ALLOW,) for each in patterns}))
    seen = []
    while not changing.done():
        seen.append((len(broker.rules), turns().given))
        await asyncio.sleep(0)

    assert {count for count, _ in seen} == {1}, "nobody sees a part of it"
    assert len(broker.rules) == 5
    assert turns().given - seen[0][1] > len(patterns)
    assert cluster.may_read()[0], "rules of others stay"
    await broker.stop()


async def test_whether_any_resource_will_do_is_found_out_in_turns_and_again_if_rules_change() -> (
    None
):
    cluster = Cluster()
    broker = cluster.brokers[0]
    await broker.start()
    names = [PATTERN._replace(name=f"t{number}") for number in range(1_000)]
    broker.rules.replace(dict.fromkeys(names, (ALLOW, DENY)))
    began = turns().given
    asking = [asyncio.create_task(cluster.may_read_some_topic()) for _ in range(2)]
    await until(lambda: turns().given > began)
    broker.rules.replace({names[0]: (ALLOW,)})

    assert await asyncio.gather(*asking) == [True, True]
    broker.rules.replace({names[0]: (ALLOW, DENY)})
    began = turns().given
    assert not await cluster.may_read_some_topic()
    assert turns().given - began == 3
    assert not await cluster.may_read_some_topic()
    assert turns().given - began == 3, "it is remembered"
    await broker.stop()


async def test_what_changed_while_a_session_was_lost_is_read_again() -> None:
    cluster = Cluster()
    for broker in cluster.brokers:
        await broker.start()
    lost = cluster.sessions[0]
    lost.suspend()
    await cluster.brokers[1].change({PATTERN: lambda _: (ALLOW,)})
    for name in await cluster.sessions[1].children("/kafka-acl-changes"):
        await cluster.sessions[1].delete(f"/kafka-acl-changes/{name}")
    lost.expire()
    lost.renew()

    await until(lambda: cluster.may_read() == [True, True])
    await cluster.brokers[1].change({PATTERN: lambda before: (*before, DENY)})
    await until(lambda: cluster.may_read() == [False, False])
    for broker in cluster.brokers:
        await broker.stop()


async def test_a_session_that_is_lost_while_some_rules_are_read_makes_all_be_read() -> None:
    cluster = Cluster()
    for broker in cluster.brokers:
        await broker.start()
    await cluster.brokers[1].change({PATTERN: lambda _: (ALLOW,)})
    await until(lambda: cluster.may_read() == [True, True])
    lost, read = cluster.sessions[0], cluster.sessions[0].get_all

    async def read_once(*asked: Any) -> Any:
        lost.get_all = read  # type: ignore[method-assign]
        lost.suspend()
        await cluster.brokers[1].change({PATTERN: lambda before: (*before, DENY)})
        for name in await cluster.sessions[1].children("/kafka-acl-changes"):
            await cluster.sessions[1].delete(f"/kafka-acl-changes/{name}")
        lost.expire()
        lost.renew()
        return await lost_read(*asked)

    async def lost_read(*_asked: Any) -> Any:
        raise SessionExpiredError("/kafka-acl")

    lost.get_all = read_once  # type: ignore[method-assign]
    await cluster.brokers[1].change({OTHER: lambda _: (ALLOW,)})

    await until(lambda: cluster.may_read() == [False, False])
    for broker in cluster.brokers:
        await broker.stop()


@pytest.mark.parametrize("data", [b"FISH:t", b'{"version":2}'])
async def test_a_notification_that_cannot_be_read_makes_all_rules_be_read(data: bytes) -> None:
    cluster = Cluster()
    for broker in cluster.brokers:
        await broker.start()
    await cluster.brokers[0].change({PATTERN: lambda _: (ALLOW,)})
    await until(lambda: cluster.may_read() == [True, True])
    session = cluster.tree.session()

    await session.set("/kafka-acl/Topic/t", encode_acls((ALLOW, DENY)))
    await session.create("/kafka-acl-changes/acl_changes_", data, sequential=True)

    await until(lambda: cluster.may_read() == [False, False])
    for broker in cluster.brokers:
        await broker.stop()


async def test_rules_are_followed_on_after_a_bug() -> None:
    cluster = Cluster()
    for broker in cluster.brokers:
        await broker.start()
    session, read = cluster.sessions[0], cluster.sessions[0].get_all

    async def read_once(*_asked: Any) -> Any:
        session.get_all = read  # type: ignore[method-assign]
        raise ValueError("no path")

    session.get_all = read_once  # type: ignore[method-assign]
    await cluster.brokers[1].change({PATTERN: lambda _: (ALLOW,)})

    await until(lambda: cluster.may_read() == [True, True])
    for broker in cluster.brokers:
        await broker.stop()


async def test_rules_that_cannot_be_read_close_their_resource_until_they_can() -> None:
    cluster = Cluster()
    for broker in cluster.brokers:
        await broker.start()
    await cluster.brokers[0].change({PATTERN: lambda _: (ALLOW,)})
    await until(lambda: cluster.may_read() == [True, True])
    session = cluster.tree.session()

    await session.set("/kafka-acl/Topic/t", b'{"version":2}')
    await session.create("/kafka-acl-changes/acl_changes_", b"TOPIC:t", sequential=True)
    await session.create("/kafka-acl-changes/acl_changes_", b"FISH:t", sequential=True)
    await until(lambda: cluster.may_read() == [False, False])

    await session.delete("/kafka-acl/Topic/t")
    await cluster.brokers[0].change({PATTERN: lambda before: (*before, ALLOW)})
    await until(lambda: cluster.may_read() == [True, True])
    for broker in cluster.brokers:
        await broker.stop()


async def test_many_rules_are_deleted_with_other_work_in_between() -> None:
    cluster = Cluster()
    await cluster.brokers[0].start()
    patterns = [PATTERN._replace(name=f"t{number}") for number in range(256)]
    await cluster.brokers[0].change({pattern: lambda _: (ALLOW,) for pattern in patterns})
    kinds = AclResourceType.ANY, None, PatternType.ANY
    every = AclFilter(*kinds, None, None, AclOperation.ANY, Permission.ANY)
    before = turns().given

    (deleted,) = await AclAdmin(cluster.sessions[0], cluster.brokers[0]).delete([every])

    assert [each.pattern for each in deleted] == patterns
    assert turns().given - before >= 2 * 256 // 32
    await cluster.brokers[0].stop()


def test_addresses_are_written_as_java_writes_them() -> None:
    assert address_in_rules("fe80::1%eth0") == "fe80:0:0:0:0:0:0:1%eth0"
    assert address_in_rules("::ffff:10.0.0.1") == "10.0.0.1"
    assert address_in_rules("10.0.0.1") == "10.0.0.1"


async def test_it_names_the_rule_that_decides_or_the_setting() -> None:
    cluster = Cluster()
    (broker, _) = cluster.brokers
    await broker.start()
    prefixed = PATTERN._replace(name="ord", pattern_type=PatternType.PREFIXED)
    connection, orders = local_connection(), AclResource(AclResourceType.TOPIC, "orders")

    def reason(operation: AclOperation = AclOperation.READ) -> str:
        return broker.reason(connection, operation, orders)

    assert reason() == "DefaultDeny"
    await broker.change({prefixed: lambda _: (ALLOW,)})
    allowed = "allow User:ANONYMOUS read --topic ord --prefixed"
    assert (reason(), reason(AclOperation.DESCRIBE)) == (allowed, allowed)
    assert reason(AclOperation.WRITE) == "DefaultDeny"
    await broker.change({PATTERN._replace(name="*"): lambda _: (DENY,)})
    assert reason().startswith("deny User:ANONYMOUS read --topic")
    many = tuple(ALLOW._replace(principal=f"User:{number}") for number in range(1_000))
    await broker.change({PATTERN._replace(name="orders"): lambda _: many})
    assert reason() == "(one of more than 500)"
    await broker.stop()
    tree = ZkUtils(cluster.tree.session(), FixedClock())
    others = SuperUsers(frozenset({connection.principal}), are_all_where_no_rule_is=True)
    ruled = AclAuthorizer(tree, FixedClock(), others)
    assert ruled.reason(connection, AclOperation.READ, orders) == "SuperUser"
    connection.principal = "User:ann"
    assert ruled.reason(connection, AclOperation.READ, orders) == "DefaultAllow"
