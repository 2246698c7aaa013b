"""Changed settings reach their handlers, whatever the tree and its sessions do meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from kbroker.admin.dynamic_config_manager import DynamicConfigManager
from kbroker.zk import zk_watchers
from kbroker.zk.embedded.embedded_tree import EmbeddedTree, TreeSession
from kbroker.zk.nodes.entity_configs import ZkEntityConfigs
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.trees.memory_tree_files import FixedClock

Heard = list[tuple[str, Mapping[str, str]]]


class Writer:
    """Another broker, which changes settings."""

    def __init__(self, tree: EmbeddedTree) -> None:
        self.tree = tree
        self.session = tree.session()
        self._configs = ZkEntityConfigs(ZkUtils(self.session, FixedClock()))

    async def set(self, entity_type: str, name: str, **overrides: str) -> None:
        await self._configs.update(entity_type, name, lambda _: overrides)


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zk_watchers, "RETRY_BACKOFF_S", 0.0)


@pytest.fixture
def tree() -> EmbeddedTree:
    return EmbeddedTree(FixedClock())


@pytest.fixture
def session(tree: EmbeddedTree) -> TreeSession:
    """Of the manager."""
    return tree.session()


@pytest.fixture
def writer(tree: EmbeddedTree) -> Writer:
    return Writer(tree)


@pytest.fixture
def heard() -> Heard:
    return []


@pytest.fixture(autouse=True)
async def manager(session: TreeSession, heard: Heard) -> AsyncIterator[DynamicConfigManager]:
    zk = ZkUtils(session, FixedClock())
    await zk.create_persistent_paths()
    await session.create("/brokers/topics/t")
    manager = DynamicConfigManager(zk, FixedClock())
    for entity_type in ("topics", "brokers"):
        manager.add_handler(entity_type, lambda *change: heard.append(change))
    await manager.start()
    yield manager
    await manager.stop()


async def turns() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


async def test_a_change_is_heard_with_all_overrides_of_the_entity(
    manager: DynamicConfigManager, writer: Writer, heard: Heard
) -> None:
    await writer.set("topics", "t", a="1")
    await writer.set("brokers", "0", b="2")
    await turns()
    assert heard == [("t", {"a": "1"}), ("0", {"b": "2"})]
    assert manager.topic_overrides("t") == {"a": "1"}


async def test_a_long_reading_does_not_undo_a_change_that_came_meanwhile(
    manager: DynamicConfigManager, writer: Writer
) -> None:
    await writer.set("topics", "t", a="1")
    await turns()
    reading = asyncio.create_task(manager.load_topics(["t", *map(str, range(1_000))]))
    await asyncio.sleep(0)  # the first ones are read
    await writer.set("topics", "t", a="2")
    await turns()
    await reading
    await turns()
    assert manager.topic_overrides("t") == {"a": "2"}


async def test_a_change_while_the_tree_is_away_is_heard_when_it_is_back(
    caplog: pytest.LogCaptureFixture, session: TreeSession, writer: Writer, heard: Heard
) -> None:
    caplog.set_level(logging.CRITICAL)
    session.suspend()
    await writer.set("topics", "t", a="1")
    await turns()
    assert heard == []
    session.resume()
    await turns()
    assert heard == [("t", {"a": "1"})]


async def test_a_tree_that_goes_between_notification_and_settings_delays_the_change(
    caplog: pytest.LogCaptureFixture,
    manager: DynamicConfigManager,
    session: TreeSession,
    writer: Writer,
    heard: Heard,
) -> None:
    caplog.set_level(logging.CRITICAL)
    await writer.set("topics", "t", a="1")
    get_all, looks = session.get_all, []

    async def late(paths: Sequence[str], *watch: Any) -> Any:
        if "/config/topics/t" in paths and not looks:
            looks.append(paths)
            session.suspend()
        return await get_all(paths, *watch)

    session.get_all = late  # type: ignore[method-assign]
    await turns()
    assert (len(looks), heard) == (1, [])
    session.resume()
    await turns()
    assert heard == [("t", {"a": "1"})]


async def test_after_a_lost_session_everything_is_read_again(
    caplog: pytest.LogCaptureFixture,
    manager: DynamicConfigManager,
    session: TreeSession,
    writer: Writer,
    heard: Heard,
) -> None:
    caplog.set_level(logging.CRITICAL)
    await writer.session.create("/brokers/topics/u")
    await writer.set("topics", "u", same="1")
    await turns()
    heard.clear()
    session.expire()
    await writer.set("topics", "t", a="1")
    await writer.set("brokers", "0", b="2")
    for name in await writer.session.children("/config/changes"):  # purged as too old
        await writer.session.delete(f"/config/changes/{name}")
    session.renew()
    await turns()
    assert sorted(heard, key=str) == [("0", {"b": "2"}), ("t", {"a": "1"})]
    assert manager.topic_overrides("t") == {"a": "1"}


async def test_settings_that_nobody_can_read_leave_in_force_what_was(
    caplog: pytest.LogCaptureFixture, manager: DynamicConfigManager, writer: Writer, heard: Heard
) -> None:
    await writer.set("topics", "t", a="1")
    await turns()
    await writer.session.set("/config/topics/t", b'{"version":1,"config":{"a":1}}')
    for _ in range(2):
        await writer.session.create(
            "/config/changes/config_change_",
            b'{"version":2,"entity_path":"topics/t"}',
            sequential=True,
        )
    await turns()
    assert heard == [("t", {"a": "1"})]
    assert manager.topic_overrides("t") == {"a": "1"}
    assert len([text for text in caplog.messages if "/config/topics/t" in text]) == 1
    await writer.set("topics", "t", a="2")
    await turns()
    assert heard[1:] == [("t", {"a": "2"})]


async def test_a_handler_that_fails_stops_no_other_change(
    caplog: pytest.LogCaptureFixture, manager: DynamicConfigManager, writer: Writer, heard: Heard
) -> None:
    caplog.set_level(logging.CRITICAL)

    def fail(*_change: object) -> None:
        raise RuntimeError("a bug")

    manager.add_handler("topics", fail)
    await writer.set("topics", "t", a="1")
    await writer.set("brokers", "0", b="2")
    await turns()
    assert heard == [("t", {"a": "1"}), ("0", {"b": "2"})]


async def test_a_handler_that_fails_for_one_keeps_nothing_from_others_after_a_lost_session(
    caplog: pytest.LogCaptureFixture,
    manager: DynamicConfigManager,
    session: TreeSession,
    writer: Writer,
    heard: Heard,
) -> None:
    def fail(name: str, _overrides: Mapping[str, str]) -> None:
        if name == "1":
            raise ZeroDivisionError

    for number in range(3):
        await writer.set("brokers", str(number), a="1")
    manager.add_handler("brokers", fail)
    await turns()
    heard.clear()
    caplog.clear()
    session.expire()
    session.renew()
    await turns()
    assert {name for name, _ in heard} == {"0", "1", "2"}
    assert "settings of brokers/1 cannot be applied" in caplog.text
    assert "brokers/0 cannot" not in caplog.text
