"""Change notifications are handled once, in order, and cleared away when old."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kbroker.zk import zk_watchers
from kbroker.zk.embedded_tree import EmbeddedTree
from kbroker.zk.tree import TreeUnavailableError, Watch
from kbroker.zk.zk_watchers import CHANGE_EXPIRATION_MS, ChangeNotificationWatcher
from tests.fakes.memory_tree_files import FixedClock


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_only_notifications_after_the_start_are_handled_each_once_and_in_order() -> None:
    async def main() -> None:
        clock = FixedClock()
        session = EmbeddedTree(clock).session()
        await session.create("/changes")
        await session.create("/changes/c_", b"old", sequential=True)
        seen: list[bytes | None] = []
        watcher = ChangeNotificationWatcher(session, "/changes", seen.append, clock)
        await watcher.start()
        await session.create("/changes/c_", b"1", sequential=True)
        await session.create("/changes/c_", b"2", sequential=True)
        await turns()
        await session.create("/changes/c_", b"3", sequential=True)
        await turns()
        await watcher.stop()
        await session.create("/changes/c_", b"4", sequential=True)
        await turns()
        assert seen == [b"1", b"2", b"3"]

    asyncio.run(main())


def test_nodes_that_are_no_notifications_are_passed_over() -> None:
    async def main() -> None:
        clock = FixedClock()
        session = EmbeddedTree(clock).session()
        await session.create("/changes/by-hand", make_parents=True)
        seen: list[bytes | None] = []
        watcher = ChangeNotificationWatcher(session, "/changes", seen.append, clock)
        await watcher.start()
        await session.create("/changes/another")
        await turns()
        await session.create("/changes/c_", b"1", sequential=True)
        await turns()
        await watcher.stop()
        assert seen == [b"1"]

    asyncio.run(main())


def test_changes_are_seen_after_the_tree_could_not_be_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(zk_watchers, "RETRY_BACKOFF_S", 0.0)
    caplog.set_level(logging.CRITICAL)

    async def main() -> None:
        clock = FixedClock()
        session = EmbeddedTree(clock).session()
        await session.create("/changes")
        seen: list[bytes | None] = []
        watcher = ChangeNotificationWatcher(session, "/changes", seen.append, clock)
        await watcher.start()
        read = session.children
        failures = [TreeUnavailableError("/changes")]

        async def children(path: str, watch: Watch | None = None) -> list[str]:
            if failures:
                raise failures.pop()
            return await read(path, watch)

        monkeypatch.setattr(session, "children", children)
        await session.create("/changes/c_", b"1", sequential=True)
        await turns()
        await watcher.stop()
        assert seen == [b"1"]

    asyncio.run(main())


def test_old_notifications_are_removed_and_young_ones_stay() -> None:
    async def main() -> None:
        clock = FixedClock()
        session = EmbeddedTree(clock).session()
        await session.create("/changes")
        watcher = ChangeNotificationWatcher(session, "/changes", lambda data: None, clock)
        await watcher.start()
        await session.create("/changes/c_", sequential=True)
        clock.value_ms += CHANGE_EXPIRATION_MS + 1
        await session.create("/changes/c_", sequential=True)
        await turns()
        assert await session.children("/changes") == ["c_0000000001"]
        await watcher.stop()

    asyncio.run(main())
