"""News for the controller: numbered nodes, read together and removed."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kbroker.model import TopicPartition
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.nodes.zk_notifications import ZkNotifications
from kbroker.zk.tree import WatchEvent
from kbroker.zk.zk_utils import ControllerMovedError, ZkUtils
from tests.fakes.trees.memory_tree_files import FixedClock

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def zk() -> ZkUtils:
    return ZkUtils(EmbeddedTree(FixedClock()).session(), FixedClock())


@pytest.fixture(autouse=True)
async def version(zk: ZkUtils) -> int:
    """Of the controller epoch's node."""
    _, version = await zk.register_controller_and_raise_epoch(1)
    return version


@pytest.fixture
def news(zk: ZkUtils) -> ZkNotifications:
    return ZkNotifications(zk)


async def test_isr_changes_are_read_together_and_only_what_was_read_is_removed(
    news: ZkNotifications, version: int
) -> None:
    events: list[WatchEvent] = []
    assert await news.isr_changes(events.append) == ([], frozenset())
    await news.propagate_isr_changes([T0])
    await news.propagate_isr_changes([T1, T0])
    await asyncio.sleep(0)
    paths, partitions = await news.isr_changes()
    await news.propagate_isr_changes([T1])
    await news.delete(paths, version)
    assert len(events) == 1
    assert paths == [f"/isr_change_notification/isr_change_000000000{n}" for n in (0, 1)]
    assert partitions == {T0, T1}
    assert (await news.isr_changes())[0] == ["/isr_change_notification/isr_change_0000000002"]


async def test_log_dir_events_name_the_brokers(news: ZkNotifications, version: int) -> None:
    await news.propagate_log_dir_event(3)
    await news.propagate_log_dir_event(1)
    paths, broker_ids = await news.log_dir_events()
    assert paths[0] == "/log_dir_event_notification/log_dir_event_0000000000"
    assert broker_ids == {1, 3}
    await news.delete(paths, version)
    await news.delete(paths, version)
    assert await news.log_dir_events() == ([], frozenset())


async def test_news_that_say_nothing_are_reported_and_removed_with_the_others(
    caplog: pytest.LogCaptureFixture, news: ZkNotifications, zk: ZkUtils, version: int
) -> None:
    with caplog.at_level(logging.ERROR):
        await news.propagate_log_dir_event(3)
        await zk.tree.create("/log_dir_event_notification/log_dir_event_", b"?", sequential=True)
        await zk.tree.create("/log_dir_event_notification/by-hand", b"")
        paths, broker_ids = await news.log_dir_events()
        await news.delete(paths, version)
        assert broker_ids == {3}
        assert (await news.log_dir_events())[0] == []

    assert len(caplog.messages) == 2


async def test_only_the_controller_removes_news(news: ZkNotifications, version: int) -> None:
    await news.propagate_isr_changes([T0])
    paths, _ = await news.isr_changes()
    with pytest.raises(ControllerMovedError):
        await news.delete(paths, version - 1)
    assert await news.isr_changes() == (paths, frozenset({T0}))
