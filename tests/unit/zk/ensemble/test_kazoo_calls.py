"""Requests keep their order, their bounds and their meaning over broken connections."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kazoo import exceptions as kazoo_errors
from kazoo.protocol.serialization import Create, Exists, GetData, SetData, Sync
from kazoo.protocol.states import ZnodeStat

from kbroker.config.zk_access import ZkAccess
from kbroker.counters import CounterRegistry, Histogram
from kbroker.zk.ensemble import kazoo_requests as requests
from kbroker.zk.ensemble.kazoo_calls import Call, KazooCalls
from kbroker.zk.ensemble.kazoo_requests import SetWatches
from kbroker.zk.tree import (
    BadVersionError,
    CreateOp,
    EventType,
    NodeTooLargeError,
    SessionExpiredError,
    SessionState,
    SetOp,
    TreeUnavailableError,
    WatchEvent,
)
from tests.fakes.counted import counted
from tests.fakes.requests.scripted_connection import ScriptedConnection

SESSION_TIMEOUT_MS = 6000


pytestmark = pytest.mark.virtual_time


@pytest.fixture
def max_in_flight() -> int:
    return 10


@pytest.fixture
def made() -> list[ScriptedConnection]:
    """The connections that calls have made."""
    return []


@pytest.fixture
async def calls(max_in_flight: int, made: list[ScriptedConnection]) -> KazooCalls:
    """Connected, and all that came with it is answered."""

    def make(*given: Any) -> ScriptedConnection:
        made.append(ScriptedConnection(*given))
        return made[-1]

    calls = KazooCalls("zk:1", SESSION_TIMEOUT_MS, max_in_flight, ZkAccess(), make)
    (connection,) = made
    connection.connect()
    connection.answer("/")  # to sync
    connection.sent.clear()
    return calls


@pytest.fixture
def connection(calls: KazooCalls, made: list[ScriptedConnection]) -> ScriptedConnection:
    (connection,) = made
    return connection


def stat(version: int, mzxid: int, czxid: int = 1) -> ZnodeStat:
    return ZnodeStat(czxid, mzxid, 0, 0, version, 0, 0, 0, 1, 0, czxid)


def read(calls: KazooCalls, path: str) -> Call:
    return calls.read(path, requests.exists_request(path, watched=False), lambda answer: answer)


def paths(connection: ScriptedConnection) -> list[str]:
    return [request.path for request in connection.sent]


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("max_in_flight", [2])
async def test_no_more_than_so_many_are_sent_without_an_answer(
    calls: KazooCalls, connection: ScriptedConnection
) -> None:
    futures = [calls.ask(read(calls, f"/{number}")) for number in range(5)]
    assert paths(connection) == ["/0", "/1"]
    connection.answer("first")
    assert paths(connection) == ["/0", "/1", "/2"]
    assert await futures[0] == "first"
    connection.answer(*"2345")
    assert await asyncio.gather(*futures[1:]) == ["2", "3", "4", "5"]


async def test_answers_connections_and_sessions_are_counted(
    calls: KazooCalls, connection: ScriptedConnection
) -> None:
    counters = CounterRegistry()
    calls.metrics.register(counters)
    calls.ask(read(calls, "/a"))
    await asyncio.sleep(0.25)
    connection.answer("a")
    calls.on_suspended(1)
    calls.on_lost(1)
    calls.on_connected(2)

    histogram = counted(counters, "ZooKeeperRequestLatencyMs")[()]
    assert isinstance(histogram, Histogram)
    assert (sum(histogram.counts), histogram.total_ns) == (1, pytest.approx(250_000_000))
    assert {
        name: counted(counters, f"ZooKeeper{name}PerSec")[()]
        for name in ("SyncConnects", "Disconnects", "Expires", "AuthFailures")
    } == {"SyncConnects": 2, "Disconnects": 1, "Expires": 1, "AuthFailures": 0}


async def test_two_writes_to_one_node_are_never_under_way_together(
    calls: KazooCalls, connection: ScriptedConnection
) -> None:
    calls.ask(calls.write([SetOp("/a", b"1")]))
    calls.ask(calls.write([SetOp("/b", b"1")]))
    calls.ask(calls.write([SetOp("/a", b"2")]))
    last = calls.ask(calls.write([CreateOp("/c")]))
    assert paths(connection) == ["/a", "/b"]
    connection.answer(stat(1, 5))
    assert paths(connection) == ["/a", "/b", "/a", "/c"]
    connection.answer(stat(1, 6), stat(2, 7), "/c")
    assert await last == ["/c"]


async def test_a_write_does_not_overtake_what_it_follows_from(
    calls: KazooCalls, connection: ScriptedConnection
) -> None:
    calls.ask(calls.write([CreateOp("/a")]))
    calls.ask(calls.write([CreateOp("/a/b")]))
    calls.ask(calls.write([CreateOp("/a/c")]))
    calls.ask(calls.write([SetOp("/a", b"1")]))
    assert paths(connection) == ["/a"]
    connection.answer("/a")
    assert paths(connection) == ["/a", "/a/b", "/a/c"]
    connection.answer("/a/b")
    assert paths(connection) == ["/a", "/a/b", "/a/c"]
    connection.answer("/a/c")
    assert paths(connection) == ["/a", "/a/b", "/a/c", "/a"]


async def test_who_read_goes_on_before_a_later_change_is_told(
    calls: KazooCalls, connection: ScriptedConnection
) -> None:
    order: list[str] = []
    request = requests.get_request("/a", watched=True)

    def parse(answer: str) -> str:
        calls.watches.add_data("/a", lambda event: order.append(event.type.value), exists=True)
        return answer

    async def reader() -> None:
        order.append(await calls.ask(calls.read("/a", request, parse)))

    task = asyncio.ensure_future(reader())
    await settle()
    connection.answer("read")
    calls.on_watch(EventType.DATA_CHANGED, "/a")
    await task
    await settle()
    assert order == ["read", "data-changed"]


@pytest.mark.parametrize("max_in_flight", [1])
async def test_a_caller_who_left_has_nothing_sent(
    calls: KazooCalls, connection: ScriptedConnection
) -> None:
    calls.ask(read(calls, "/1"))
    calls.ask(read(calls, "/2")).cancel()
    calls.ask(read(calls, "/3"))
    connection.answer("1")
    assert paths(connection) == ["/1", "/3"]


async def test_a_new_connection_catches_up_watches_and_recovers_before_it_goes_on(
    calls: KazooCalls, connection: ScriptedConnection
) -> None:
    seen: list[WatchEvent] = []
    calls.watches.add_data("/w", seen.append, exists=True)
    connection.last_zxid = 9
    lost_write = calls.ask(calls.write([SetOp("/a", b"1", 0)]))
    lost_read = calls.ask(read(calls, "/r"))
    connection.cut()
    later = calls.ask(read(calls, "/later"))

    connection.connect()
    await settle()

    kinds = [type(request) for request in connection.sent]
    assert kinds == [Sync, SetWatches, GetData]
    assert connection.sent[1].serialize() == SetWatches(9, ["/w"], [], []).serialize()
    connection.answer("/", None, (b"1", stat(1, mzxid=10)))  # it was done
    await settle()
    connection.answer((b"1", stat(1, mzxid=10)))
    await settle()
    assert (await lost_write)[0].version == 1
    assert [type(request) for request in connection.sent[4:]] == [Exists, Exists]
    connection.answer("r", "later")
    assert (await lost_read, await later) == ("r", "later")


async def test_a_lost_write_that_was_not_done_is_sent_again_and_may_be_refused(
    calls: KazooCalls, connection: ScriptedConnection
) -> None:
    connection.last_zxid = 9
    lost = calls.ask(calls.write([SetOp("/a", b"1", 0)]))
    connection.cut()
    connection.connect()
    connection.answer("/")
    await settle()
    connection.answer((b"other", stat(1, mzxid=10)))
    await settle()
    assert [type(request) for request in connection.sent] == [Sync, GetData, SetData]
    connection.answer(kazoo_errors.BadVersionError())
    await settle()
    with pytest.raises(BadVersionError, match=r"^/a$"):
        await lost


async def test_a_recovery_that_is_cut_off_begins_again(
    calls: KazooCalls, connection: ScriptedConnection
) -> None:
    connection.last_zxid = 9
    lost = calls.ask(calls.write([CreateOp("/a", b"x")]))
    connection.cut()
    for _ in range(3):
        connection.connect()
        connection.answer("/")
        await settle()
        assert [type(request) for request in connection.sent] == [Sync, GetData]
        connection.cut()
    connection.connect()
    connection.answer("/")
    await settle()
    connection.answer(kazoo_errors.NoNodeError())
    await settle()
    assert [type(request) for request in connection.sent] == [Sync, GetData, Create]
    connection.cut()  # the repetition is lost as well, but done
    connection.connect()
    connection.answer("/")
    await settle()
    connection.answer((b"x", stat(0, mzxid=12, czxid=12)))
    assert await lost == ["/a"]
    assert connection.sent[2:] == []


async def test_waiting_ends_when_a_session_would_have(
    calls: KazooCalls, connection: ScriptedConnection
) -> None:
    loop = asyncio.get_running_loop()
    lost = calls.ask(calls.write([SetOp("/lost", b"")]))
    connection.cut()
    started = loop.time()
    waiting = calls.ask(read(calls, "/waiting"))
    await asyncio.sleep(2)
    later = calls.ask(read(calls, "/later"))
    ended: list[float] = []
    for future in (lost, waiting, later):
        with pytest.raises(TreeUnavailableError) as refusal:
            await future
        assert type(refusal.value) is TreeUnavailableError
        ended.append(loop.time() - started)
    assert ended == [6, 6, 8]
    connection.connect()
    assert [type(request) for request in connection.sent] == [Sync]


async def test_a_request_that_the_server_breaks_the_connection_over_is_given_up(
    calls: KazooCalls, connection: ScriptedConnection
) -> None:
    poison = calls.ask(calls.write([CreateOp("/large", b"x")]))
    later = calls.ask(read(calls, "/later"))
    cuts = 0
    while not poison.done():
        connection.cut()
        cuts += 1
        await asyncio.sleep(1)
        connection.connect()
        connection.answer("/")
        await asyncio.sleep(0.6)
        if connection.sent[1:] and isinstance(connection.sent[1], GetData):
            connection.answer(kazoo_errors.NoNodeError())
            await settle()
    with pytest.raises(TreeUnavailableError, match=r"^/large$"):
        await poison
    assert 3 < cuts <= SESSION_TIMEOUT_MS / 1000
    with pytest.raises(TreeUnavailableError):
        await later  # it was lost as often
    asked = calls.ask(read(calls, "/next"))
    connection.answer("found")
    assert await asked == "found"


async def test_a_connection_in_time_ends_the_waiting(
    calls: KazooCalls, connection: ScriptedConnection
) -> None:
    connection.cut()
    waiting = calls.ask(read(calls, "/waiting"))
    await asyncio.sleep(5)
    connection.connect()
    await asyncio.sleep(60)
    connection.answer("/", "found")
    assert await waiting == "found"


async def test_what_was_asked_through_a_lost_session_fails_and_watches_go_along(
    calls: KazooCalls, connection: ScriptedConnection
) -> None:
    seen: list[WatchEvent] = []
    states: list[SessionState] = []
    calls.listeners.append(states.append)
    calls.watches.add_children("/w", seen.append)
    connection.last_zxid = 20
    sent = calls.ask(calls.write([CreateOp("/e", ephemeral=True)]))
    connection.cut()
    waiting = calls.ask(read(calls, "/waiting"))
    connection.lose_session()
    for future in (sent, waiting):
        with pytest.raises(SessionExpiredError):
            await future
    between = calls.ask(calls.write([SetOp("/a", b"")]))
    connection.connect(session_id=2)
    assert [type(request) for request in connection.sent] == [Sync, SetWatches, SetData]
    assert connection.sent[1].serialize() == SetWatches(20, [], [], ["/w"]).serialize()
    connection.answer("/", None, stat(1, 30))
    assert (await between)[0].version == 1
    calls.on_watch(EventType.CHILDREN_CHANGED, "/w")
    await settle()
    assert [event.path for event in seen] == ["/w"]
    assert states == [SessionState.SUSPENDED, SessionState.LOST, SessionState.CONNECTED]
    assert calls.session_id == 2


async def test_another_session_that_nobody_announced_is_a_loss_all_the_same(
    calls: KazooCalls, connection: ScriptedConnection
) -> None:
    states: list[tuple[SessionState, int]] = []
    calls.listeners.append(lambda state: states.append((state, calls.session_id)))
    lost = calls.ask(calls.write([CreateOp("/e", ephemeral=True)]))
    connection.cut()
    connection.connect(session_id=2)
    with pytest.raises(SessionExpiredError):
        await lost
    assert states == [
        (SessionState.SUSPENDED, 1),
        (SessionState.LOST, 1),
        (SessionState.CONNECTED, 2),
    ]


async def test_zxids_do_not_fall_back_with_a_new_session(
    calls: KazooCalls, connection: ScriptedConnection
) -> None:
    connection.last_zxid = 50
    connection.lose_session()
    connection.connect(session_id=2)
    lost = calls.ask(calls.write([CreateOp("/c/n_", b"x", sequential=True)]))
    connection.cut()
    connection.connect(session_id=2)
    connection.answer("/")
    await settle()
    connection.answer((["n_0000000004"], stat(0, 1)))
    await settle()
    connection.answer((b"x", stat(0, mzxid=40, czxid=40)))  # of an earlier session
    await settle()
    assert isinstance(connection.sent[-1], Create)
    connection.answer("/c/n_0000000005")
    await settle()
    assert await lost == ["/c/n_0000000005"]


async def test_a_request_that_is_too_large_is_refused_before_it_is_sent(
    calls: KazooCalls, connection: ScriptedConnection
) -> None:
    with pytest.raises(NodeTooLargeError):
        calls.write([SetOp("/a", bytes(1 << 20))])
    assert connection.sent == []


async def test_a_login_that_is_refused_is_said_once_until_one_is_taken(
    calls: KazooCalls, connection: ScriptedConnection, caplog: pytest.LogCaptureFixture
) -> None:
    waiting = calls.ask(read(calls, "/a"))
    connection.cut()
    for _ in range(2):
        calls.on_login_refused()
    assert calls.login_refused
    assert [m for m in caplog.messages if "login" in m] == [
        "ZooKeeper at zk:1 refuses the login, which it took before"
    ]
    connection.connect()
    connection.answer(kazoo_errors.SessionClosedRequireSaslError())  # to sync
    assert calls.login_refused
    connection.cut()
    connection.connect()
    connection.answer("/")
    assert not calls.login_refused
    for _ in range(3):
        await asyncio.sleep(0)
    connection.answer("a")
    assert await waiting == "a"
    counters = CounterRegistry()
    calls.metrics.register(counters)
    assert counted(counters, "ZooKeeperAuthFailuresPerSec")[()] == 3
