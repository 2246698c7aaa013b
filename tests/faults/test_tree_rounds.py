"""The short form of the hunt for differences between the stores, and for writes done twice."""

from __future__ import annotations

import asyncio

import pytest

from compat_tests.running.prerequisites import NotAvailableError
from compat_tests.running.shared_zookeeper import shared_zookeeper
from compat_tests.running.zookeeper_servers import ZooKeeperServers
from tests.faults.tree_rounds import compare_series, play_contest

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def servers() -> ZooKeeperServers:
    try:
        return shared_zookeeper()
    except NotAvailableError as error:
        pytest.skip(str(error))


def test_both_stores_do_the_same_and_a_follower_sees_every_change(
    servers: ZooKeeperServers,
) -> None:
    assert asyncio.run(compare_series(1, servers)) == []


def test_what_sessions_do_at_once_over_breaking_connections_happens_once(
    servers: ZooKeeperServers,
) -> None:
    assert asyncio.run(play_contest(1, servers)) == []
