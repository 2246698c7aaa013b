"""Change notifications are handled once, in order, and cleared away when old."""

from __future__ import annotations

import asyncio
import logging
import random

import pytest

from kbroker.turns import ENTRIES
from kbroker.turns import turns as turns_of_loop
from kbroker.zk import zk_paths, zk_watchers
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.tree import SessionState, TreeUnavailableError, Watch
from kbroker.zk.zk_watchers import CHANGE_EXPIRATION_MS, ChangeNotificationWatcher
from tests.fakes.running.waiting import until
from tests.fakes.trees.memory_tree_files import FixedClock


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_only_notifications_after_the_start_are_handled_each_once_and_in_order() -> None:
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


async def test_nodes_that_are_no_notifications_are_passed_over() -> None:
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


async def test_changes_are_seen_after_the_tree_could_not_be_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(zk_watchers, "RETRY_BACKOFF_S", 0.0)
    caplog.set_level(logging.CRITICAL)
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


async def test_old_notifications_are_removed_and_young_ones_stay() -> None:
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


async def test_nothing_is_missed_or_handled_twice_over_broken_connections_and_new_sessions(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(zk_watchers, "RETRY_BACKOFF_S", 0.0)
    caplog.set_level(logging.CRITICAL)
    rng = random.Random(7)
    clock = FixedClock()
    tree = EmbeddedTree(clock)
    session, writer = tree.session(), tree.session()
    await writer.create("/changes")
    seen: list[bytes | None] = []
    watcher = ChangeNotificationWatcher(session, "/changes", seen.append, clock)
    await watcher.start()
    written = []
    trouble = {
        SessionState.CONNECTED: (session.suspend, session.expire),
        SessionState.SUSPENDED: (session.resume, session.expire),
        SessionState.LOST: (session.renew,),
    }
    for number in range(300):
        written.append(b"%d" % number)
        await writer.create("/changes/c_", written[-1], sequential=True)
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
        if rng.random() < 0.5:
            rng.choice(trouble[session.state])()
    while session.state is not SessionState.CONNECTED:
        trouble[session.state][0]()
    for _ in range(2000):
        await asyncio.sleep(0)
    await watcher.stop()
    assert seen == written


async def test_a_parent_removed_by_hand_is_made_anew_and_its_numbers_begin_anew() -> None:
    clock = FixedClock()
    session = EmbeddedTree(clock).session()
    await session.create("/changes")
    seen: list[bytes | None] = []
    watcher = ChangeNotificationWatcher(session, "/changes", seen.append, clock)
    await watcher.start()
    path = await session.create("/changes/c_", b"1", sequential=True)
    await turns()
    await session.delete(path)
    await session.delete("/changes")
    await turns()
    assert await session.exists("/changes") is not None
    assert await session.create("/changes/c_", b"2", sequential=True) == path
    await turns()
    await watcher.stop()
    assert seen == [b"1", b"2"]


async def test_a_notification_that_says_nothing_is_reported_once_and_stops_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def take(data: bytes | None) -> None:
        seen.append(zk_paths.decode_config_change(data))

    seen: list[str] = []
    clock = FixedClock()
    session = EmbeddedTree(clock).session()
    await session.create("/changes")
    watcher = ChangeNotificationWatcher(session, "/changes", take, clock)
    await watcher.start()
    for data in (
        b"{",
        None,
        b"[]",
        b'{"version":3,"entity_path":"topics/t"}',
        b'{"version":2}',
        b'{"version":2,"entity_path":"topics"}',
        b'{"version":1,"entity_type":"topics","entity_name":7}',
        b'{"version":2,"entity_path":"topics/t"}',
        b'{"version":1,"entity_type":"topics","entity_name":"u"}',
    ):
        await session.create("/changes/c_", data, sequential=True)
    await turns()
    await session.create("/changes/c_", zk_paths.encode_config_change("x/y"), sequential=True)
    await turns()
    await watcher.stop()

    assert seen == ["topics/t", "topics/u", "x/y"]
    assert len([text for text in caplog.messages if "ignoring notification" in text]) == 7


async def test_a_notification_that_was_given_children_is_left_where_it_is() -> None:
    clock = FixedClock()
    session = EmbeddedTree(clock).session()
    await session.create("/changes")
    watcher = ChangeNotificationWatcher(session, "/changes", lambda data: None, clock)
    await watcher.start()
    for _ in range(2):
        await session.create("/changes/c_", sequential=True)
    await session.create("/changes/c_0000000000/by-hand")
    clock.value_ms += CHANGE_EXPIRATION_MS + 1
    await session.create("/changes/c_", sequential=True)
    await turns()
    assert await session.children("/changes") == ["c_0000000000", "c_0000000002"]
    await watcher.stop()


async def test_very_many_notifications_are_looked_through_in_turns() -> None:
    clock = FixedClock()
    session = EmbeddedTree(clock).session()
    await session.create("/changes")
    seen: list[bytes | None] = []
    watcher = ChangeNotificationWatcher(session, "/changes", seen.append, clock)
    for number in range(5_000):
        await session.create("/changes/c_", b"%d" % number, sequential=True)
    before = turns_of_loop().given
    await watcher.start()
    assert turns_of_loop().given >= before + 5
    for number in range(5_000, 5_003):
        await session.create("/changes/c_", b"%d" % number, sequential=True)
    await until(lambda: len(seen) == 3)
    await watcher.stop()
    assert seen == [b"5000", b"5001", b"5002"]


async def test_many_old_notifications_are_removed_in_turns() -> None:
    clock, count = FixedClock(), 2 * ENTRIES
    session = EmbeddedTree(clock).session()
    await session.create("/changes")
    for _ in range(count):
        await session.create("/changes/c_", b"old", sequential=True)
    clock.value_ms += CHANGE_EXPIRATION_MS + 1
    watcher = ChangeNotificationWatcher(session, "/changes", lambda _: None, clock)
    await watcher.start()
    given = turns_of_loop().given

    await session.create("/changes/c_", b"new", sequential=True)
    await turns()

    assert len(await session.children("/changes")) == 1
    assert turns_of_loop().given >= given + 2
    await watcher.stop()
