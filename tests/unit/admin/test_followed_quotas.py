"""Quotas that are written to the tree come into force, and what cannot be read leaves them so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from functools import partial

import pytest

from kbroker.admin.dynamic_config_manager import DynamicConfigManager
from kbroker.admin.followed_quotas import FollowedQuotas
from kbroker.quotas.client_limits import ClientLimits
from kbroker.quotas.quota_keys import ClientQuotaType
from kbroker.zk import zk_paths
from kbroker.zk.embedded.embedded_tree import EmbeddedTree, TreeSession
from kbroker.zk.nodes.entity_configs import ZkEntityConfigs
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.trees.memory_tree_files import FixedClock

PRODUCE = ClientQuotaType.PRODUCE
HOSTS = {"near.example": "10.0.0.7"}


class Cluster:
    """A tree with what a broker follows there, and somebody who writes to it."""

    def __init__(self) -> None:
        self.tree = EmbeddedTree(FixedClock())
        self.session: TreeSession = self.tree.session()
        self.writer = ZkEntityConfigs(ZkUtils(self.tree.session(), FixedClock()))
        self.limits = ClientLimits()
        self.addresses: dict[str | None, int] = {}
        self.looked_up = self.looked_up_at_once = self._looking = 0  # hosts
        self.changes: list[int] = []  # how many entities there were after each
        self.zk = ZkUtils(self.session, FixedClock())
        self.manager = DynamicConfigManager(self.zk, FixedClock())
        self.quotas = FollowedQuotas(
            self.limits,
            self._put_address,
            lambda: self.changes.append(len(self.limits)),
            self._find_address,
        )
        for entity_type in (zk_paths.USER_CONFIGS, zk_paths.CLIENT_CONFIGS, zk_paths.IP_CONFIGS):
            self.manager.add_handler(entity_type, partial(self.quotas.changed, entity_type))

    def _put_address(self, address: str | None, per_s: int | None) -> None:
        if per_s is None:
            self.addresses.pop(address, None)
        else:
            self.addresses[address] = per_s

    async def _find_address(self, name: str) -> str | None:
        self.looked_up += 1
        self._looking += 1
        self.looked_up_at_once = max(self.looked_up_at_once, self._looking)
        await asyncio.sleep(0)
        self._looking -= 1
        return HOSTS.get(name)

    async def set(self, entity_type: str, name: str, **values: str) -> None:
        await self.writer.update(entity_type, name, lambda _: values)
        await turns()

    def limit(self, user: str, client_id: str = "app") -> float | None:
        return self.limits.limit_of(PRODUCE, user, client_id).limit


async def turns() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    await cluster.zk.create_persistent_paths()
    yield cluster
    await cluster.manager.stop()
    await cluster.quotas.stop()


async def test_all_limits_are_there_after_the_start(cluster: Cluster) -> None:
    for entity_type, name, value in (
        ("users", "ann", "1"), ("users", "ann/clients/app", "2"), ("users", "<default>", "3"),
        ("users", "<default>/clients/c%201", "4"), ("clients", "<default>", "5"),
    ):  # fmt: skip
        await cluster.set(entity_type, name, producer_byte_rate=value)
    await cluster.set("ips", "10.0.0.1", connection_creation_rate="6")
    await cluster.set("ips", "<default>", connection_creation_rate="7")
    assert not cluster.limits
    await cluster.manager.start()
    asked = [("ann", "x"), ("ann", "app"), ("bo", "x"), ("bo", "c 1")]
    assert [cluster.limit(*each) for each in asked] == [1, 2, 3, 4]
    assert cluster.addresses == {"10.0.0.1": 6, None: 7}
    assert cluster.changes == [1, 2, 3, 4, 5]


async def test_changes_are_followed_until_the_last_limit_is_gone(cluster: Cluster) -> None:
    await cluster.manager.start()
    await cluster.set("users", "ann", producer_byte_rate="1", **{"SCRAM-SHA-256": "secret"})
    await cluster.set("users", "ann/clients/app", producer_byte_rate="2")
    assert [cluster.limit("ann", "x"), cluster.limit("ann")] == [1, 2]
    await cluster.set("users", "ann", **{"SCRAM-SHA-256": "another"})
    await cluster.set("users", "ann", **{"SCRAM-SHA-256": "third"})
    await cluster.set("users", "ann/clients/app")
    assert not cluster.limits
    assert cluster.changes == [1, 2, 1, 0]  # a new password is no change


async def test_after_a_lost_session_all_are_read_again(
    caplog: pytest.LogCaptureFixture, cluster: Cluster
) -> None:
    caplog.set_level(logging.CRITICAL)
    await cluster.manager.start()
    await cluster.set("users", "ann/clients/app", producer_byte_rate="2")
    await cluster.set("ips", "10.0.0.1", connection_creation_rate="6")
    cluster.session.suspend()
    await cluster.set("users", "ann/clients/app")
    await cluster.set("users", "bo/clients/app", producer_byte_rate="3")
    await cluster.set("ips", "10.0.0.1")
    cluster.session.expire()
    cluster.session.renew()
    await turns()
    assert [cluster.limit("ann"), cluster.limit("bo"), cluster.addresses] == [None, 3, {}]


@pytest.mark.parametrize(("place", "data", "told"), [
    ("users/ann", "{", "/config/users/ann"),
    ("users/ann", '{"version":1,"config":{"producer_byte_rate":"much"}}',
     "settings of users/ann are not applied: producer_byte_rate=much is not a LONG"),
    ("ips/10.0.0.1", '{"version":1,"config":{"connection_creation_rate":"-"}}',
     "settings of ips/10.0.0.1 are not applied: connection_creation_rate=- is not a INT"),
    ("users/ann/odd", '{"version":1,"config":{"producer_byte_rate":"1"}}',
     "settings of users/ann/odd are not applied: users/ann/odd is not the place of an entity"),
])  # fmt: skip
async def test_a_node_that_cannot_be_read_is_named_and_leaves_what_was_in_force(
    place: str, data: str, told: str, caplog: pytest.LogCaptureFixture, cluster: Cluster
) -> None:
    await cluster.manager.start()
    await cluster.set("users", "ann", producer_byte_rate="1")
    await cluster.set("ips", "10.0.0.1", connection_creation_rate="6")
    session = cluster.tree.session()
    if await session.exists(f"/config/{place}") is None:
        await session.create(f"/config/{place}", data.encode())
    await session.set(f"/config/{place}", data.encode())
    notice = f'{{"version":2,"entity_path":"{place}"}}'.encode()
    await session.create("/config/changes/config_change_", notice, sequential=True)
    await turns()
    assert told in caplog.text
    assert (cluster.limit("ann"), cluster.addresses) == (1, {"10.0.0.1": 6})


async def test_a_broken_node_does_not_keep_a_broker_from_its_start(
    caplog: pytest.LogCaptureFixture, cluster: Cluster
) -> None:
    await cluster.set("users", "bad", producer_byte_rate="NaN")
    await cluster.set("users", "ann", producer_byte_rate="1")
    await cluster.manager.start()
    assert cluster.limit("ann") == 1
    assert "settings of users/bad are not applied" in caplog.text


async def test_a_host_has_the_limit_of_its_address(
    caplog: pytest.LogCaptureFixture, cluster: Cluster
) -> None:
    await cluster.set("ips", "near.example", connection_creation_rate="5")
    await cluster.manager.start()
    await turns()
    assert cluster.addresses == {"10.0.0.7": 5}
    HOSTS["near.example"] = "10.0.0.8"
    await cluster.set("ips", "near.example", connection_creation_rate="6")
    assert cluster.addresses == {"10.0.0.8": 6}
    await cluster.set("ips", "far.example", connection_creation_rate="5")
    assert "the quota of host far.example is not applied" in caplog.text
    await cluster.set("ips", "near.example")
    assert cluster.addresses == {}


async def test_a_few_hosts_are_looked_up_at_once(cluster: Cluster) -> None:
    """Each takes a thread, and a name that the system cannot find takes it for long."""
    for number in range(20):
        await cluster.set("ips", f"h{number}.example", connection_creation_rate="6")
    await cluster.manager.start()
    await turns()
    assert (cluster.looked_up, cluster.looked_up_at_once) == (20, 8)
