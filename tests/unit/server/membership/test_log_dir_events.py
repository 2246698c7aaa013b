"""A broker makes the controller ask about its replicas, and goes on trying."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kbroker.server.membership import log_dir_events
from kbroker.server.membership.log_dir_events import LogDirEvents
from kbroker.zk.embedded.embedded_tree import EmbeddedTree, TreeSession
from kbroker.zk.nodes.zk_notifications import ZkNotifications
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.memory_tree_files import FixedClock


class Unmade:
    """Fulfils UnmadeLogs: `attempts` times there are logs to be made."""

    def __init__(self, attempts: int = 0) -> None:
        self.attempts = attempts

    def retry_unmade(self) -> bool:
        self.attempts -= 1
        return self.attempts >= 0


def run(
    unmade: Unmade, scenario: Callable[[LogDirEvents, TreeSession], Awaitable[None]]
) -> frozenset[int]:
    """Play it; returns the brokers that are told of afterwards."""

    async def main() -> frozenset[int]:
        session = EmbeddedTree(FixedClock()).session()
        zk = ZkUtils(session, FixedClock())
        events = LogDirEvents(zk, 7, unmade)
        await scenario(events, session)
        await events.stop()
        return (await ZkNotifications(zk).log_dir_events())[1]

    return asyncio.run(main())


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_failed_directory_is_told_of() -> None:
    async def scenario(events: LogDirEvents, _session: TreeSession) -> None:
        events.report()
        await turns()

    assert run(Unmade(), scenario) == {7}


def test_what_cannot_be_told_now_is_told_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_dir_events, "WRITE_BACKOFF_S", 0.0)

    async def scenario(events: LogDirEvents, session: TreeSession) -> None:
        session.suspend()
        events.report()
        await turns()
        session.resume()
        await turns()

    assert run(Unmade(), scenario) == {7}


def test_a_broker_that_has_stopped_tells_nothing_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_dir_events, "UNMADE_RETRY_S", 0.0)

    async def scenario(events: LogDirEvents, _session: TreeSession) -> None:
        await events.stop()
        events.report()
        events.log_unmade()
        await turns()

    assert run(Unmade(attempts=1), scenario) == frozenset()


def test_logs_are_tried_again_until_all_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_dir_events, "UNMADE_RETRY_S", 0.0)
    unmade = Unmade(attempts=3)

    async def scenario(events: LogDirEvents, _session: TreeSession) -> None:
        events.log_unmade()
        events.log_unmade()
        await turns()

    assert run(unmade, scenario) == {7}
    assert unmade.attempts == -1


def test_logs_that_were_made_meanwhile_are_not_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_dir_events, "UNMADE_RETRY_S", 0.0)

    async def scenario(events: LogDirEvents, _session: TreeSession) -> None:
        events.log_unmade()
        await turns()

    assert run(Unmade(), scenario) == frozenset()
