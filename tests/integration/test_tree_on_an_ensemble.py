"""What only an ensemble can do to a tree: answers that get lost, servers that hang, end, move their
leader, and sessions that run out while a request is under way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from itertools import count

import pytest

from compat_tests.running.prerequisites import NotAvailableError
from compat_tests.running.tcp_proxy import TO_CLIENT, TO_SERVER
from compat_tests.running.zookeeper_servers import ZooKeeperServers, zookeeper_servers
from kbroker.zk.ensemble.kazoo_connection import KazooConnection
from kbroker.zk.ensemble.kazoo_tree import EnsembleUnreachableError, KazooTree, open_kazoo_tree
from kbroker.zk.tree import (
    BadVersionError,
    CheckOp,
    CreateOp,
    DeleteOp,
    EventType,
    NodeExistsError,
    NodeTooLargeError,
    Op,
    OpResult,
    SessionExpiredError,
    SessionState,
    SetOp,
    Stat,
    TreeError,
    TreeUnavailableError,
    WatchEvent,
)
from tests.fakes.running.waiting import until
from tests.integration.tree_stores import EnsembleStore, opened

Scenario = Callable[[EnsembleStore, KazooTree], Awaitable[None]]
_chroots = (f"/ensemble/{number}" for number in count())

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def servers() -> Iterator[ZooKeeperServers]:
    try:
        with zookeeper_servers() as running:
            yield running
    except NotAvailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def ensemble() -> Iterator[ZooKeeperServers]:
    try:
        with zookeeper_servers(3) as running:
            yield running
    except NotAvailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def store(servers: ZooKeeperServers) -> EnsembleStore:
    return EnsembleStore(servers, next(_chroots))


@pytest.fixture
async def session(store: EnsembleStore) -> AsyncIterator[KazooTree]:
    async with opened(store) as session:
        assert isinstance(session, KazooTree)
        yield session


async def lose_answer(
    store: EnsembleStore, session: KazooTree, ops: Sequence[Op]
) -> list[OpResult]:
    """The transaction is done, but its answer goes with the connection."""
    proxy = store.proxy(session)
    proxy.swallow(TO_CLIENT)
    call = asyncio.ensure_future(session.multi(ops))
    await asyncio.to_thread(proxy.wait_swallowed, TO_CLIENT)
    proxy.cut()
    return await call


async def lose_request(
    store: EnsembleStore, session: KazooTree, ops: Sequence[Op]
) -> list[OpResult]:
    """The transaction never gets to the server."""
    proxy = store.proxy(session)
    proxy.swallow(TO_SERVER)
    call = asyncio.ensure_future(session.multi(ops))
    await asyncio.to_thread(proxy.wait_swallowed, TO_SERVER)
    proxy.cut()
    return await call


LOSSES = pytest.mark.parametrize("lose", [lose_answer, lose_request])
Lose = Callable[[EnsembleStore, KazooTree, Sequence[Op]], Awaitable[list[OpResult]]]


# ---- lost answers


@LOSSES
async def test_a_sequential_node_is_made_once(
    lose: Lose, store: EnsembleStore, session: KazooTree
) -> None:
    await session.create("/c")
    before = await session.create("/c/n_", b"x", sequential=True)
    made = await lose(store, session, (CreateOp("/c/n_", b"x", sequential=True),))
    assert await session.children("/c") == [before[3:], str(made[0])[3:]]
    ephemeral = CreateOp("/c/n_", b"x", ephemeral=True, sequential=True)
    first, second = await lose(store, session, (ephemeral, ephemeral))
    assert (first, second) == ("/c/n_0000000002", "/c/n_0000000003")
    assert len(await session.children("/c")) == 4


@LOSSES
async def test_a_version_check_does_not_fail_because_of_the_own_write(
    lose: Lose, store: EnsembleStore, session: KazooTree
) -> None:
    await session.multi((CreateOp("/epoch", b"1"), CreateOp("/state", b"0")))
    fenced = (CheckOp("/epoch", 0), SetOp("/state", b"1", 0))
    _, stat = await lose(store, session, fenced)
    assert isinstance(stat, Stat)
    assert (stat.version, await session.get("/state")) == (1, (b"1", stat))
    (stat,) = await lose(store, session, (SetOp("/state", b"2"),))
    assert isinstance(stat, Stat)
    assert stat.version == 2


@LOSSES
async def test_a_refused_write_is_refused_also_when_its_answer_was_lost(
    lose: Lose, store: EnsembleStore, session: KazooTree
) -> None:
    await session.multi((CreateOp("/epoch", b"1"), CreateOp("/state", b"0")))
    with pytest.raises(BadVersionError) as refusal:
        await lose(store, session, (SetOp("/state", b"1", 0), CheckOp("/epoch", 1)))
    assert refusal.value.op_index == 1
    with pytest.raises(NodeExistsError):
        await lose(store, session, (CreateOp("/state", b"0"),))
    assert (await session.get("/state"))[0] == b"0"


@LOSSES
async def test_nodes_are_made_and_removed_once(
    lose: Lose, store: EnsembleStore, session: KazooTree
) -> None:
    made = await lose(store, session, (CreateOp("/a", b"x"),))
    assert made == ["/a"]
    register = (CreateOp("/e", None, ephemeral=True), SetOp("/e", b"data"))
    made_path, stat = await lose(store, session, register)
    assert made_path == "/e"
    assert (await session.get("/e")) == (b"data", stat)
    assert await lose(store, session, (DeleteOp("/a", 0), DeleteOp("/e"))) == [None, None]
    assert [name for name in await session.children("/") if name in {"a", "e"}] == []


async def test_a_write_that_nobody_can_tell_of_is_not_repeated(
    store: EnsembleStore, session: KazooTree
) -> None:
    other = await store.open()
    await session.create("/a", b"0")
    proxy = store.proxy(session)
    proxy.swallow(TO_CLIENT)
    call = asyncio.ensure_future(session.set("/a", b"mine"))
    await asyncio.to_thread(proxy.wait_swallowed, TO_CLIENT)
    await other.set("/a", b"theirs")
    proxy.cut()
    with pytest.raises(TreeUnavailableError):
        await call
    assert (await other.get("/a"))[0] == b"theirs"


async def test_a_row_of_transactions_survives_cuts_in_its_order(
    store: EnsembleStore, session: KazooTree
) -> None:
    await session.multi((CreateOp("/epoch"), CreateOp("/n"), CreateOp("/s", b"")))
    rows: list[tuple[Op, ...]] = []
    for number in range(300):
        rows += [
            (CheckOp("/epoch", 0), CreateOp(f"/n/{number}", b"0")),
            (SetOp(f"/n/{number}", b"1", 0),),
            (SetOp("/s", b"%d" % number, number),),
            (CreateOp("/n/seq_", b"%d" % number, sequential=True),),
        ]
    call = asyncio.ensure_future(session.multi_all(rows))
    proxy = store.proxy(session)
    cuts = 0
    while not call.done():
        await asyncio.sleep(0.02)
        proxy.swallow(TO_CLIENT)
        await asyncio.sleep(0.005)
        proxy.cut()
        cuts += 1
        await until(lambda: call.done() or session.state is SessionState.CONNECTED)
    outcomes = await call
    assert cuts > 2
    assert [outcome for outcome in outcomes if isinstance(outcome, TreeError)] == []
    assert (await session.get("/s"))[1].version == 300
    made = [outcome[0] for outcome in outcomes[3::4] if isinstance(outcome, list)]
    names = [name for name in await session.children("/n") if name.startswith("seq")]
    assert [f"/n/{name}" for name in names] == made


async def test_reads_and_their_watches_survive_cuts(
    store: EnsembleStore, session: KazooTree
) -> None:
    other = await store.open()
    paths = [f"/{number}" for number in range(500)]
    await other.multi_all([(CreateOp(path, path.encode()),) for path in paths])
    seen: list[str] = []
    call = asyncio.ensure_future(session.get_all(paths, lambda event: seen.append(event.path)))
    for _ in range(3):
        await asyncio.sleep(0.01)
        store.proxies(session)[0].cut()
    found = await call
    assert [node and node[0] for node in found] == [path.encode() for path in paths]
    await other.multi_all([(SetOp(path, b""),) for path in paths])
    await until(lambda: len(seen) >= len(paths))
    assert sorted(seen) == sorted(paths)


# ---- no connection, and no session


async def test_calls_without_a_connection_wait_for_it(
    store: EnsembleStore, session: KazooTree
) -> None:
    await store.cut_off(session)
    calls = [asyncio.ensure_future(session.create(f"/{number}")) for number in range(20)]
    read = asyncio.ensure_future(session.get("/19"))
    await asyncio.sleep(0.1)
    assert not any(call.done() for call in [*calls, read])
    await store.reconnect(session)
    assert await asyncio.gather(*calls) == [f"/{number}" for number in range(20)]
    assert (await read)[1].version == 0


async def test_calls_without_a_connection_wait_no_longer_than_a_session_lives(
    store: EnsembleStore,
) -> None:
    short = await store.open(session_timeout_ms=600)
    await store.cut_off(short)
    started = time.monotonic()
    with pytest.raises(TreeUnavailableError, match=r"^/a$") as refusal:
        await short.create("/a")
    assert not isinstance(refusal.value, SessionExpiredError)
    assert time.monotonic() - started >= 0.6
    with pytest.raises(TreeUnavailableError):
        await short.get_all(["/a", "/b"])
    assert short.state is SessionState.SUSPENDED
    before = short.session_id
    for proxy in store.proxies(short):
        proxy.accept()
    await until(lambda: short.session_id != before)
    assert await short.exists("/a") is None


async def test_what_is_under_way_when_the_session_ends_fails(
    servers: ZooKeeperServers, store: EnsembleStore, session: KazooTree
) -> None:
    proxy = store.proxy(session)
    await session.create("/a")
    seen: list[WatchEvent] = []
    await session.children("/a", seen.append)
    proxy.hold(TO_SERVER)
    calls: list[asyncio.Future[object]] = [
        asyncio.ensure_future(session.create(f"/a/{number}", ephemeral=True))
        for number in range(20)
    ]
    calls.append(asyncio.ensure_future(session.get("/a")))
    await asyncio.sleep(0.05)
    before = session.session_id
    await asyncio.to_thread(servers.expire_session, before)
    proxy.cut()
    await until(lambda: session.session_id != before)
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {SessionExpiredError}
    assert await session.children("/a") == []
    await session.create("/a/new", ephemeral=True)
    await until(lambda: bool(seen))
    assert [event.type for event in seen] == [EventType.CHILDREN_CHANGED]


async def test_a_server_that_hangs_is_noticed_and_comes_back(
    servers: ZooKeeperServers, store: EnsembleStore
) -> None:
    patient = await store.open(session_timeout_ms=6000)  # noticed after two thirds of it
    states: list[SessionState] = []
    patient.add_session_listener(states.append)
    servers.server.pause()
    call = asyncio.ensure_future(patient.create("/a"))
    await until(lambda: patient.state is SessionState.SUSPENDED)
    servers.server.resume()
    assert await call == "/a"
    assert states[0] is SessionState.SUSPENDED
    assert SessionState.LOST not in states


async def test_a_server_that_was_killed_and_started_again_knows_the_session(
    servers: ZooKeeperServers, session: KazooTree
) -> None:
    await session.create("/e", b"x", ephemeral=True)
    seen: list[WatchEvent] = []
    await session.get("/e", seen.append)
    before = session.session_id
    await asyncio.to_thread(lambda: servers.server.restart(kill=True))
    await until(lambda: session.state is SessionState.CONNECTED)
    _, stat = await session.get("/e")
    assert (session.session_id, stat.ephemeral_owner) == (before, before)
    await session.set("/e", b"y")
    await until(lambda: bool(seen))
    assert [event.type for event in seen] == [EventType.DATA_CHANGED]


async def test_when_the_thread_of_the_connection_ends_another_takes_over(
    store: EnsembleStore, session: KazooTree
) -> None:
    class Broken:
        type = 4

        def serialize(self) -> bytes:
            raise RuntimeError("not foreseen")

    other = await store.open()
    await session.create("/e", b"", ephemeral=True)
    seen: list[WatchEvent] = []
    states: list[SessionState] = []
    await session.get("/e", seen.append)
    before = session.session_id
    session.add_session_listener(states.append)
    session._calls._connection.submit(Broken(), lambda *_: None)
    await until(lambda: session.state is SessionState.SUSPENDED)
    await other.set("/e", b"x")
    assert await session.create("/s_", sequential=True) == "/s_0000000001"
    await until(lambda: bool(seen))
    assert (session.session_id, states) == (
        before,
        [SessionState.SUSPENDED, SessionState.CONNECTED],
    )
    assert [event.type for event in seen] == [EventType.DATA_CHANGED]
    session._calls._connection.submit(Broken(), lambda *_: None)
    await until(lambda: session.state is SessionState.SUSPENDED)
    await store.expire(session)
    assert states[2:] == [SessionState.SUSPENDED, SessionState.LOST, SessionState.CONNECTED]
    assert await session.exists("/e") is None


async def test_request_numbers_go_on_with_the_next_connection(
    store: EnsembleStore, session: KazooTree
) -> None:
    connection = session._calls._connection
    assert isinstance(connection, KazooConnection)
    for number in range(10):
        await session.create(f"/{number}")
    before = connection._client._connection._xid
    await store.cut_off(session)
    await store.reconnect(session)
    await session.get("/")
    assert connection._client._connection._xid > before >= 10


async def test_closing_takes_bounded_time_without_a_server(store: EnsembleStore) -> None:
    for fault in ("hold", "refuse"):
        other = await store.open()
        proxy = store.proxy(other)
        getattr(proxy, fault)()
        call = asyncio.ensure_future(other.get("/"))
        await asyncio.sleep(0)
        async with asyncio.timeout(60):  # it gives up by itself, if not soon on a busy machine
            await other.close()
        with pytest.raises(SessionExpiredError):
            await call


async def test_without_an_ensemble_opening_says_so_in_one_sentence(
    servers: ZooKeeperServers,
) -> None:
    with pytest.raises(EnsembleUnreachableError) as refusal:
        await open_kazoo_tree("127.0.0.1:1/kafka", 10_000, 300)
    assert str(refusal.value).startswith(
        "no connection to ZooKeeper at 127.0.0.1:1/kafka within 300 ms ("
    )
    assert "onnection refused" in str(refusal.value)
    assert "\n" not in str(refusal.value)


# ---- limits


async def test_large_nodes_and_long_lists_go_through_and_larger_ones_are_refused(
    session: KazooTree,
) -> None:
    states: list[SessionState] = []
    session.add_session_listener(states.append)
    large = bytes(1_048_000)
    await session.create("/large", large)
    assert (await session.get("/large"))[0] == large
    for size in (1_048_001, 1 << 20, 1 << 22):
        with pytest.raises(NodeTooLargeError, match=r"^/large$"):
            await session.set("/large", bytes(size))
    with pytest.raises(NodeTooLargeError, match=r"^/b$") as refusal:
        await session.multi((SetOp("/large", bytes(400_000)), CreateOp("/b", bytes(700_000))))
    assert refusal.value.op_index == 1
    await session.create("/list")
    name = "n" * 200
    children = [
        [CreateOp(f"/list/{name}{n}") for n in range(m, m + 500)] for m in range(0, 6000, 500)
    ]
    await session.multi_all(children)
    assert len(await session.children("/list")) == 6000  # an answer of 1.2 MB
    assert states == []


async def test_a_slow_ensemble_is_only_slow(store: EnsembleStore, session: KazooTree) -> None:
    states: list[SessionState] = []
    session.add_session_listener(states.append)
    store.proxy(session).delay_ms = 100
    await session.create("/a/b", b"", make_parents=True)
    outcomes = await session.multi_all([(CreateOp(f"/a/{n}"),) for n in range(40)])
    assert len(outcomes) == 40
    assert len(await session.children("/a")) == 41
    assert states == []


# ---- several servers


async def test_when_the_leader_ends_all_goes_on_at_the_others(ensemble: ZooKeeperServers) -> None:
    async with opened(EnsembleStore(ensemble, next(_chroots))) as session:
        await session.create("/e", ephemeral=True)
        await session.create("/n", b"0")
        seen: list[WatchEvent] = []
        await session.get("/n", seen.append)
        before = session.session_id
        leader = await asyncio.to_thread(ensemble.leader)
        await asyncio.to_thread(leader.kill)
        for version in range(50):
            stat = await session.set("/n", b"%d" % version, version)
            assert stat.version == version + 1
        made = await session.create("/s_", sequential=True)
        assert [n for n in await session.children("/") if n.startswith("s_")] == [made[1:]]
        assert session.session_id == before
        assert await session.exists("/e") is not None
        assert [event.type for event in seen] == [EventType.DATA_CHANGED]
        await asyncio.to_thread(ensemble.start)


async def test_a_session_moves_to_another_server_and_sees_what_it_saw(
    ensemble: ZooKeeperServers,
) -> None:
    store = EnsembleStore(ensemble, next(_chroots))
    async with opened(store) as session:
        assert isinstance(session, KazooTree)
        other = await store.open()
        await session.create("/n", b"0")
        version = 0
        for _ in range(6):
            proxy = store.proxy(session)
            seen: list[WatchEvent] = []
            await session.get("/n", seen.append)
            proxy.swallow(TO_CLIENT)
            call = asyncio.ensure_future(session.set("/n", b"mine", version))
            await asyncio.to_thread(proxy.wait_swallowed, TO_CLIENT)
            proxy.refuse()  # so that it goes elsewhere
            stat = await call
            version += 1
            assert stat.version == version
            await until(lambda seen=seen: bool(seen))  # type: ignore[misc]
            await other.set("/n", b"theirs", version)
            version += 1
            proxy.accept()
        while (await session.get("/n"))[1].version < version:
            pass  # its server may lag behind the one that has taken the change
        assert (await session.get("/n"))[1].version == version
