"""A broker makes the controller ask about its replicas, and goes on trying."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kbroker.server.membership import log_dir_events
from kbroker.server.membership.log_dir_events import LogDirEvents
from kbroker.zk.embedded.embedded_tree import EmbeddedTree, TreeSession
from kbroker.zk.nodes.zk_notifications import ZkNotifications
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.trees.memory_tree_files import FixedClock


class Unmade:
    """Logs of replicas: `attempts` times there are logs to be made."""

    def __init__(self, attempts: int = 0) -> None:
        self.attempts = attempts

    def retry_unmade(self) -> bool:
        self.attempts -= 1
        return self.attempts >= 0


@pytest.fixture
def session() -> TreeSession:
    return EmbeddedTree(FixedClock()).session()


@asynccontextmanager
async def events_of(session: TreeSession, unmade: Unmade) -> AsyncIterator[LogDirEvents]:
    """Of broker 7, which stops at the end."""
    events = LogDirEvents(ZkUtils(session, FixedClock()), 7, unmade.retry_unmade)
    yield events
    await events.stop()


async def told(session: TreeSession) -> frozenset[int]:
    """The brokers that were told of."""
    return (await ZkNotifications(ZkUtils(session, FixedClock())).log_dir_events())[1]


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_failed_directory_is_told_of(session: TreeSession) -> None:
    async with events_of(session, Unmade()) as events:
        events.report()
        await turns()
    assert await told(session) == {7}


async def test_what_cannot_be_told_now_is_told_later(
    monkeypatch: pytest.MonkeyPatch, session: TreeSession
) -> None:
    monkeypatch.setattr(log_dir_events, "WRITE_BACKOFF_S", 0.0)

    async with events_of(session, Unmade()) as events:
        session.suspend()
        events.report()
        await turns()
        session.resume()
        await turns()
    assert await told(session) == {7}


async def test_a_broker_that_has_stopped_tells_nothing_any_more(
    monkeypatch: pytest.MonkeyPatch, session: TreeSession
) -> None:
    monkeypatch.setattr(log_dir_events, "UNMADE_RETRY_S", 0.0)

    async with events_of(session, Unmade(attempts=1)) as events:
        await events.stop()
        events.report()
        events.log_unmade()
        await turns()
    assert await told(session) == frozenset()


async def test_logs_are_tried_again_until_all_are_made(
    monkeypatch: pytest.MonkeyPatch, session: TreeSession
) -> None:
    monkeypatch.setattr(log_dir_events, "UNMADE_RETRY_S", 0.0)
    unmade = Unmade(attempts=3)

    async with events_of(session, unmade) as events:
        events.log_unmade()
        events.log_unmade()
        await turns()
    assert await told(session) == {7}
    assert unmade.attempts == -1


async def test_logs_that_were_made_meanwhile_are_not_told_of(
    monkeypatch: pytest.MonkeyPatch, session: TreeSession
) -> None:
    monkeypatch.setattr(log_dir_events, "UNMADE_RETRY_S", 0.0)

    async with events_of(session, Unmade()) as events:
        events.log_unmade()
        await turns()
    assert await told(session) == frozenset()
