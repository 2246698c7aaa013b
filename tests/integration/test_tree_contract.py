"""One contract for all stores: what `Tree` promises holds on the embedded tree and on ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count

import pytest

from compat_tests.running.prerequisites import NotAvailableError
from compat_tests.running.shared_zookeeper import shared_zookeeper
from compat_tests.running.zookeeper_servers import ZooKeeperServers
from kbroker.zk.tree import (
    BadVersionError,
    CheckOp,
    CreateOp,
    DeleteOp,
    EventType,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NodeTooLargeError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    SessionState,
    SetOp,
    Tree,
    TreeError,
    TreeUnavailableError,
    WatchEvent,
)
from tests.fakes.running.waiting import until
from tests.integration.tree_stores import EmbeddedStore, EnsembleStore, TreeStore, opened

_chroots = (f"/contract/{number}" for number in count())


@pytest.fixture(scope="module")
def servers() -> ZooKeeperServers:
    try:
        return shared_zookeeper()
    except NotAvailableError as error:
        pytest.skip(str(error))


@pytest.fixture(params=["embedded", pytest.param("zookeeper", marks=pytest.mark.java)])
def store(request: pytest.FixtureRequest) -> TreeStore:
    if request.param == "embedded":
        return EmbeddedStore()
    return EnsembleStore(request.getfixturevalue("servers"), next(_chroots))


@pytest.fixture
async def session(store: TreeStore) -> AsyncIterator[Tree]:
    async with opened(store) as session:
        yield session


async def told(seen: list[WatchEvent], *events: tuple[EventType, str]) -> None:
    """Wait for events, and that they are all there are."""
    await until(lambda: len(seen) >= len(events))
    assert [(event.type, event.path) for event in seen] == list(events)


# ---- operations


async def test_data_stat_and_children_are_what_was_written(session: Tree) -> None:
    assert await session.create("/a", b"one") == "/a"
    await session.create("/a/c")
    await session.create("/a/b", b"")
    changed = await session.set("/a", b"three", version=0)
    data, stat = await session.get("/a")
    assert data == b"three"
    assert stat.czxid < stat.mzxid
    assert (changed.version, stat.version, stat.cversion) == (1, 1, 2)
    assert (stat.data_length, stat.num_children, stat.ephemeral_owner) == (5, 2, 0)
    assert await session.children("/a") == ["b", "c"]
    assert (await session.get("/a/c"))[0] is None
    assert (await session.get("/a/b"))[0] == b""
    assert await session.exists("/a") == stat
    assert await session.exists("/none") is None
    assert await session.children("/") in (["a"], ["a", "zookeeper"])


async def test_refusals_name_the_path(session: Tree) -> None:
    assert await session.create("/a/b/c", b"x", make_parents=True) == "/a/b/c"
    await session.create("/e", ephemeral=True)
    with pytest.raises(NodeExistsError, match=r"^/a/b$"):
        await session.create("/a/b")
    with pytest.raises(NodeExistsError, match=r"^/a/b$"):
        await session.create("/a/b", make_parents=True)
    with pytest.raises(NoNodeError, match=r"^/x/y$"):
        await session.create("/x/y")
    with pytest.raises(NoNodeError, match=r"^/x$"):
        await session.get("/x")
    with pytest.raises(NoNodeError, match=r"^/x$"):
        await session.children("/x")
    with pytest.raises(NoNodeError, match=r"^/x$"):
        await session.set("/x", b"")
    with pytest.raises(NoNodeError, match=r"^/x$"):
        await session.delete("/x")
    with pytest.raises(NotEmptyError, match=r"^/a/b$"):
        await session.delete("/a/b")
    with pytest.raises(BadVersionError, match=r"^/a/b$"):
        await session.set("/a/b", b"", version=4)
    with pytest.raises(BadVersionError):
        await session.delete("/a/b/c", version=1)
    with pytest.raises(NoChildrenForEphemeralsError, match=r"^/e/child$"):
        await session.create("/e/child")
    with pytest.raises(NodeTooLargeError, match=r"^/big$"):
        await session.create("/big", bytes(1 << 20))
    await session.delete("/a/b/c", version=0)
    assert await session.children("/a/b") == []


async def test_sequence_numbers_go_on_after_a_delete(session: Tree) -> None:
    await session.create("/c")
    first = await session.create("/c/n_", sequential=True)
    await session.delete(first)
    second = await session.create("/c/n_", b"x", sequential=True, ephemeral=True)
    assert (first, second) == ("/c/n_0000000000", "/c/n_0000000001")
    assert (await session.get(second))[1].ephemeral_owner == session.session_id


async def test_a_multi_does_all_or_nothing_and_tells_which_operation_failed(session: Tree) -> None:
    await session.create("/a", b"1")
    made, stat, checked, deleted, sequential = await session.multi(
        (
            CreateOp("/b", None, ephemeral=True),
            SetOp("/b", b"2", 0),
            CheckOp("/b", 1),
            DeleteOp("/a"),
            CreateOp("/s-", b"", sequential=True),
        )
    )
    assert (made, checked, deleted) == ("/b", None, None)
    assert isinstance(sequential, str)
    assert sequential.startswith("/s-00")
    _, now = await session.get("/b")
    assert stat == now
    assert now.czxid == now.mzxid
    with pytest.raises(BadVersionError, match=r"^/b$") as refusal:
        await session.multi((CreateOp("/x"), DeleteOp(sequential), CheckOp("/b", 7)))
    assert refusal.value.op_index == 2
    assert await session.exists("/x") is None
    assert await session.exists(sequential) is not None
    with pytest.raises(BadVersionError):
        await session.multi((CheckOp("/b", 7),))
    assert await session.multi(()) == []


async def test_many_transactions_are_done_in_order_and_refused_one_by_one(session: Tree) -> None:
    done, refused, large, later, *rest = await session.multi_all(
        [
            (CreateOp("/a"),),
            (CreateOp("/b"), CreateOp("/a")),
            (CreateOp("/big", bytes(1 << 20)),),
            (SetOp("/a", b"x", 0),),
            *((SetOp("/a", b"%d" % version, version),) for version in range(1, 50)),
            *((CreateOp(f"/a/{number}"),) for number in range(200)),
        ]
    )
    assert done == ["/a"]
    assert isinstance(refused, NodeExistsError)
    assert refused.op_index == 1
    assert isinstance(large, NodeTooLargeError)
    assert isinstance(later, list)
    assert not [outcome for outcome in rest if isinstance(outcome, TreeError)]
    data, stat = await session.get("/a")
    assert (data, stat.version, stat.num_children) == (b"49", 50, 200)
    assert await session.multi_all([]) == []


async def test_many_nodes_are_read_with_none_for_those_that_are_not_there(
    store: TreeStore, session: Tree
) -> None:
    other = await store.open()
    await session.multi([CreateOp(f"/{number}", b"%d" % number) for number in range(100)])
    seen: list[WatchEvent] = []
    paths = [f"/{number}" for number in range(99, -1, -1)]
    found = await other.get_all([*paths, "/none"], seen.append)
    assert [node and node[0] for node in found] == [
        *(b"%d" % number for number in range(99, -1, -1)),
        None,
    ]
    await session.create("/none")
    await session.set("/7", b"x")
    await told(seen, (EventType.DATA_CHANGED, "/7"))


async def test_many_nodes_are_read_without_watches(session: Tree) -> None:
    await session.multi([CreateOp(f"/{number}", b"%d" % number) for number in range(150)])
    await session.multi((CreateOp("/bare"), CreateOp("/large", bytes(700_000))))
    paths = ["/none", *(f"/{number}" for number in range(150)), "/bare", "/large", "/no/parent"]

    found = await session.get_all(paths)

    assert [node and node[0] for node in found] == [
        None, *(b"%d" % number for number in range(150)), None, bytes(700_000), None,
    ]  # fmt: skip
    assert found[1] == await session.get("/0")
    assert found[-2] == await session.get("/large")
    assert await session.get_all(["/none"]) == [None]
    assert await session.get_all([]) == []


async def test_what_one_session_wrote_another_reads(store: TreeStore, session: Tree) -> None:
    other = await store.open()
    assert other.session_id != session.session_id
    for number in range(20):
        await session.set("/", b"%d" % number)
        assert (await other.get("/"))[0] == b"%d" % number


# ---- watches


async def test_watches_fire_once_with_the_type_of_the_change(
    store: TreeStore, session: Tree
) -> None:
    other = await store.open()
    seen: list[WatchEvent] = []
    await session.create("/p", b"")
    await other.exists("/p/x", seen.append)
    await other.children("/p", seen.append)
    await other.get("/p", seen.append)
    await session.create("/p/x")
    await session.create("/p/y")
    await session.set("/p", b"1")
    await session.set("/p", b"2")
    expected = [
        (EventType.CREATED, "/p/x"),
        (EventType.CHILDREN_CHANGED, "/p"),
        (EventType.DATA_CHANGED, "/p"),
    ]
    await told(seen, *expected)
    await other.exists("/p/x", seen.append)
    await other.children("/p/x", seen.append)
    await other.get("/p/y", seen.append)
    await session.delete("/p/x")
    await session.delete("/p/y")
    gone = [(EventType.DELETED, "/p/x"), (EventType.DELETED, "/p/y")]
    await told(seen, *expected, *gone)
    await other.exists("/p")
    await told(seen, *expected, *gone)


async def test_the_same_callback_twice_fires_once_and_two_fire_both(session: Tree) -> None:
    seen: list[WatchEvent] = []
    others: list[WatchEvent] = []
    await session.create("/a", b"")
    await session.get("/a", seen.append)
    await session.get("/a", seen.append)
    await session.exists("/a", seen.append)
    await session.exists("/a", others.append)
    await session.delete("/a")
    await session.create("/a")
    await told(seen, (EventType.DELETED, "/a"))
    await told(others, (EventType.DELETED, "/a"))


async def test_a_callback_comes_after_the_change_can_be_read_and_in_the_order_of_changes(
    store: TreeStore, session: Tree
) -> None:
    other = await store.open()
    numbers = range(40)
    await session.multi([CreateOp(f"/{number}", b"0") for number in numbers])
    seen: list[str] = []
    reads: list[asyncio.Task[bytes | None]] = []

    async def read(path: str) -> bytes | None:
        return (await other.get(path))[0]

    def on_event(event: WatchEvent) -> None:
        seen.append(event.path)
        reads.append(asyncio.ensure_future(read(event.path)))

    for number in numbers:
        await other.get(f"/{number}", on_event)
    order = [f"/{number * 7 % 40}" for number in numbers]
    await session.multi_all([(SetOp(path, b"1"),) for path in order])
    await until(lambda: len(seen) == len(order))
    assert seen == order
    assert await asyncio.gather(*reads) == [b"1"] * len(order)


async def test_a_watch_may_be_set_again_from_its_callback_and_misses_nothing(
    store: TreeStore, session: Tree
) -> None:
    other = await store.open()
    await session.create("/a", b"0")
    tasks: list[asyncio.Task[None]] = []
    last = b""

    async def follow() -> None:
        nonlocal last
        data, _ = await other.get("/a", on_event)
        assert data is not None
        last = max(last, data, key=lambda value: int(value or b"-1"))

    def on_event(event: WatchEvent) -> None:
        tasks.append(asyncio.ensure_future(follow()))

    await follow()
    for number in range(100):
        await session.set("/a", b"%d" % number)
    await until(lambda: last == b"99")
    await asyncio.gather(*tasks)


async def test_a_failed_transaction_fires_nothing(session: Tree) -> None:
    seen: list[WatchEvent] = []
    await session.create("/a", b"")
    await session.get("/a", seen.append)
    await session.exists("/b", seen.append)
    with pytest.raises(NodeExistsError):
        await session.multi((SetOp("/a", b"1"), CreateOp("/b"), CreateOp("/a")))
    await session.create("/b")
    await told(seen, (EventType.CREATED, "/b"))


# ---- broken connections and lost sessions


async def test_a_cut_connection_is_told_and_keeps_the_session(store: TreeStore) -> None:
    other = await store.open()
    states: list[tuple[SessionState, SessionState, int]] = []
    other.add_session_listener(lambda s: states.append((s, other.state, other.session_id)))
    await other.create("/e", ephemeral=True)
    before = other.session_id
    await store.cut_off(other)
    await store.reconnect(other)
    assert states == [
        (SessionState.SUSPENDED, SessionState.SUSPENDED, before),
        (SessionState.CONNECTED, SessionState.CONNECTED, before),
    ]
    stat = await other.exists("/e")
    assert stat is not None
    assert stat.ephemeral_owner == before


async def test_what_changed_while_a_session_was_cut_off_is_told_when_it_is_back(
    store: TreeStore, session: Tree
) -> None:
    other = await store.open()
    await session.multi([CreateOp(f"/{name}", b"") for name in ("gone", "set", "same", "kids")])
    seen: list[WatchEvent] = []
    for path in ("/gone", "/set", "/same"):
        await other.get(path, seen.append)
    for path in ("/new", "/never"):
        await other.exists(path, seen.append)
    for path in ("/kids", "/same", "/gone"):
        await other.children(path, seen.append)
    await store.cut_off(other)
    await session.delete("/gone")
    await session.set("/set", b"x")
    await session.create("/new")
    await session.create("/kids/one")
    assert seen == []
    await store.reconnect(other)
    await until(lambda: len(seen) >= 4)
    assert sorted((event.path, event.type.value) for event in seen) == [
        ("/gone", "deleted"),
        ("/kids", "children-changed"),
        ("/new", "created"),
        ("/set", "data-changed"),
    ]
    await session.set("/same", b"x")
    await session.create("/never")
    await session.create("/same/child")
    await until(lambda: len(seen) >= 7)
    assert [(event.type, event.path) for event in seen[4:]] == [
        (EventType.DATA_CHANGED, "/same"),
        (EventType.CREATED, "/never"),
        (EventType.CHILDREN_CHANGED, "/same"),
    ]


async def test_after_a_lost_session_the_next_has_another_id_and_no_ephemeral_nodes(
    store: TreeStore, session: Tree
) -> None:
    other = await store.open()
    states: list[tuple[SessionState, SessionState, bool]] = []
    first_id = other.session_id
    other.add_session_listener(
        lambda state: states.append((state, other.state, other.session_id == first_id))
    )
    seen: list[WatchEvent] = []
    await session.create("/ids")
    await other.multi([CreateOp(f"/ids/{number}", ephemeral=True) for number in range(3)])
    await session.children("/ids", seen.append)
    await store.expire(other)
    assert [entry for entry in states if entry[0] is not SessionState.SUSPENDED] == [
        (SessionState.LOST, SessionState.LOST, True),
        (SessionState.CONNECTED, SessionState.CONNECTED, False),
    ]
    await told(seen, (EventType.CHILDREN_CHANGED, "/ids"))
    assert await other.children("/ids") == []
    await other.create("/ids/1", ephemeral=True)
    stat = await session.exists("/ids/1")
    assert stat is not None
    assert stat.ephemeral_owner == other.session_id


async def test_watches_outlive_the_session(store: TreeStore, session: Tree) -> None:
    other = await store.open()
    seen: list[WatchEvent] = []
    await session.create("/a", b"")
    await other.create("/mine", ephemeral=True)
    await other.get("/a", seen.append)
    await other.get("/mine", seen.append)
    await other.children("/a", seen.append)
    await store.expire(other)
    await told(seen, (EventType.DELETED, "/mine"))
    await session.set("/a", b"1")
    await session.create("/a/b")
    await told(
        seen,
        (EventType.DELETED, "/mine"),
        (EventType.DATA_CHANGED, "/a"),
        (EventType.CHILDREN_CHANGED, "/a"),
    )


async def test_ephemeral_nodes_of_a_session_go_in_one_transaction(
    store: TreeStore, session: Tree
) -> None:
    other = await store.open()
    await session.create("/a")
    await other.multi([CreateOp(f"/a/{number}", ephemeral=True) for number in range(30)])
    counts: list[int] = []
    tasks: list[asyncio.Task[None]] = []

    async def follow() -> None:
        counts.append(len(await session.children("/a", on_event)))

    def on_event(event: WatchEvent) -> None:
        tasks.append(asyncio.ensure_future(follow()))

    await follow()
    await other.close()
    await until(lambda: counts[-1] == 0)
    assert counts == [30, 0]


# ---- closing


async def test_a_closed_session_answers_and_tells_nothing_more(
    store: TreeStore, session: Tree
) -> None:
    other = await store.open()
    seen: list[WatchEvent] = []
    states: list[SessionState] = []
    gone: list[WatchEvent] = []
    other.add_session_listener(states.append)
    await session.create("/a", b"")
    await other.create("/e", ephemeral=True)
    await other.get("/a", seen.append)
    await session.exists("/e", gone.append)
    await other.close()
    await other.close()
    assert other.state is SessionState.LOST
    await session.set("/a", b"x")
    await told(gone, (EventType.DELETED, "/e"))
    with pytest.raises(SessionExpiredError, match=r"^/a$"):
        await other.get("/a")
    with pytest.raises(TreeUnavailableError):
        await other.multi_all([(SetOp("/a", b""),)])
    assert (seen, states) == ([], [])
