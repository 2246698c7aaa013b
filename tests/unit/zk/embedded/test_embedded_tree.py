"""The embedded tree keeps ZooKeeper's rules.

Versions, sequences, ephemerals, watches and transactions.
"""

from __future__ import annotations

import asyncio
import logging

import pytest

from kbroker.zk.embedded.embedded_tree import EmbeddedTree, TreeSession
from kbroker.zk.embedded.tree_journal import CorruptTreeError
from kbroker.zk.tree import (
    BadVersionError,
    CheckOp,
    CreateOp,
    DeleteOp,
    EventType,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    SessionState,
    SetOp,
    TreeUnavailableError,
    WatchEvent,
)
from tests.fakes.trees.memory_tree_files import FixedClock, MemoryTreeFiles


@pytest.fixture
def files() -> MemoryTreeFiles:
    return MemoryTreeFiles()


@pytest.fixture
def tree(files: MemoryTreeFiles) -> EmbeddedTree:
    return EmbeddedTree(FixedClock(), files)


@pytest.fixture
def session(tree: EmbeddedTree) -> TreeSession:
    return tree.session()


async def test_a_node_has_the_stat_of_its_making_and_its_changes(session: TreeSession) -> None:
    await session.create("/a", b"one")
    created = (await session.get("/a"))[1]
    changed = await session.set("/a", b"three", version=0)
    assert (created.czxid, created.mzxid, created.version) == (2, 2, 0)
    assert (changed.czxid, changed.mzxid, changed.version) == (2, 3, 1)
    assert (changed.data_length, changed.ephemeral_owner) == (5, 0)


async def test_no_data_and_empty_data_are_different(session: TreeSession) -> None:
    await session.create("/none")
    await session.create("/empty", b"")
    assert (await session.get("/none"))[0] is None
    assert (await session.get("/empty"))[0] == b""


async def test_refusals_name_the_path(session: TreeSession) -> None:
    await session.create("/a/b", make_parents=True)
    await session.create("/e", ephemeral=True)
    with pytest.raises(NodeExistsError, match="/a/b"):
        await session.create("/a/b")
    with pytest.raises(NoNodeError, match="/x/y"):
        await session.create("/x/y")
    with pytest.raises(NotEmptyError, match="/a"):
        await session.delete("/a")
    with pytest.raises(BadVersionError, match="/a/b"):
        await session.set("/a/b", b"", version=4)
    with pytest.raises(BadVersionError):
        await session.delete("/a/b", version=1)
    with pytest.raises(NoChildrenForEphemeralsError):
        await session.create("/e/child")


async def test_sequence_numbers_go_on_after_a_delete(session: TreeSession) -> None:
    await session.create("/c")
    first = await session.create("/c/n_", sequential=True)
    await session.delete(first)
    second = await session.create("/c/n_", sequential=True)
    assert (first, second) == ("/c/n_0000000000", "/c/n_0000000001")


async def test_a_multi_that_fails_leaves_nothing_and_tells_which_operation_it_was(
    tree: EmbeddedTree, session: TreeSession
) -> None:
    await session.create("/a", b"1")
    before = tree.dump()
    with pytest.raises(BadVersionError) as refusal:
        await session.multi(
            (
                SetOp("/a", b"2"),
                CreateOp("/b"),
                CreateOp("/b/c", ephemeral=True),
                DeleteOp("/b/c"),
                CheckOp("/a", 7),
            )
        )
    assert refusal.value.op_index == 4
    assert tree.dump() == before


async def test_operations_of_a_multi_see_those_before_them(session: TreeSession) -> None:
    results = await session.multi((CreateOp("/a"), SetOp("/a", b"x", 0), CheckOp("/a", 1)))
    assert results[0] == "/a"
    assert (await session.get("/a"))[0] == b"x"


async def test_watches_fire_once_in_order_and_a_repeated_one_counts_once(
    session: TreeSession,
) -> None:
    seen: list[WatchEvent] = []
    await session.create("/p")
    await session.children("/p", seen.append)
    await session.children("/p", seen.append)
    await session.exists("/p/x", seen.append)
    await session.create("/p/x")
    await session.create("/p/y")
    await asyncio.sleep(0)
    assert seen == [
        WatchEvent(EventType.CREATED, "/p/x"),
        WatchEvent(EventType.CHILDREN_CHANGED, "/p"),
    ]


async def test_a_watch_on_data_hears_of_a_change_and_of_a_delete(session: TreeSession) -> None:
    seen: list[EventType] = []
    await session.create("/d", b"")
    await session.get("/d", lambda event: seen.append(event.type))
    await session.set("/d", b"x")
    await session.get("/d", lambda event: seen.append(event.type))
    await session.delete("/d")
    await asyncio.sleep(0)
    assert seen == [EventType.DATA_CHANGED, EventType.DELETED]


async def test_another_session_sees_ephemerals_go_with_their_owner(
    tree: EmbeddedTree, session: TreeSession
) -> None:
    other = tree.session()
    seen: list[WatchEvent] = []
    lost: list[SessionState] = []
    await session.create("/ids")
    await other.create("/ids/1", ephemeral=True)
    await session.children("/ids", seen.append)
    other.add_session_listener(lost.append)
    other.expire()
    await asyncio.sleep(0)
    assert await session.children("/ids") == []
    assert [event.type for event in seen] == [EventType.CHILDREN_CHANGED]
    assert lost == [SessionState.LOST]
    with pytest.raises(SessionExpiredError):
        await other.get("/ids")


async def test_a_closed_session_gets_no_more_events(
    tree: EmbeddedTree, session: TreeSession
) -> None:
    other = tree.session()
    seen: list[WatchEvent] = []
    await session.create("/a")
    await other.get("/a", seen.append)
    await session.set("/a", b"x")
    await other.close()
    await asyncio.sleep(0)
    assert seen == []


async def test_a_tree_in_a_directory_comes_back_without_ephemerals_and_with_higher_zxids(
    files: MemoryTreeFiles, tree: EmbeddedTree, session: TreeSession
) -> None:
    await session.create("/a/b", b"data", make_parents=True)
    await session.create("/a/e", ephemeral=True)

    again = EmbeddedTree(FixedClock(), MemoryTreeFiles(files.snapshot())).session()
    assert await again.children("/a") == ["b"]
    assert (await again.get("/a/b"))[0] == b"data"
    assert again.session_id > tree.zxid


async def test_close_keeps_everything_and_compaction_changes_nothing() -> None:
    files = MemoryTreeFiles()
    tree = EmbeddedTree(FixedClock(), files, compact_bytes=2_000)
    session = tree.session()
    for number in range(100):
        await session.create(f"/n{number}", str(number).encode())
    await session.delete("/n7")
    await session.create("/e", ephemeral=True)
    await session.close()
    expected = tree.dump()
    assert files.read("tree.snapshot") is not None
    assert len(files.contents["tree.journal"]) <= 2_100
    tree.close()
    again = EmbeddedTree(FixedClock(), MemoryTreeFiles(files.snapshot()))
    assert sorted(again.dump()) == sorted(expected)


async def test_a_full_disk_refuses_the_transaction_and_later_ones_survive(
    files: MemoryTreeFiles, session: TreeSession
) -> None:
    await session.create("/a")
    files.fail_writes_after = 11
    with pytest.raises(TreeUnavailableError):
        await session.create("/b")
    assert await session.exists("/b") is None
    files.fail_writes_after = None
    await session.create("/c")

    again = EmbeddedTree(FixedClock(), MemoryTreeFiles(files.snapshot()))
    assert [path for path, _, _ in again.dump()] == ["/", "/a", "/c"]


async def test_a_torn_write_that_cannot_be_cut_refuses_all_until_it_is(
    files: MemoryTreeFiles, session: TreeSession
) -> None:
    files.fail_writes_after, files.fails_to_truncate = 11, True
    with pytest.raises(TreeUnavailableError):
        await session.create("/a")
    files.fail_writes_after = None
    with pytest.raises(TreeUnavailableError):
        await session.create("/b")
    files.fails_to_truncate = False
    await session.create("/c")

    again = EmbeddedTree(FixedClock(), MemoryTreeFiles(files.snapshot()))
    assert [path for path, _, _ in again.dump()] == ["/", "/c"]


async def test_a_snapshot_that_cannot_be_written_fails_no_transaction(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    files = MemoryTreeFiles()
    tree = EmbeddedTree(FixedClock(), files, compact_bytes=2000)
    session = tree.session()
    files.fail_writes_after = 1000
    for number in range(40):
        await session.create(f"/{number}", b"x" * 100)
    tried = files.opened.count("tree.snapshot.tmp")
    await session.create("/next")
    assert tried
    assert files.opened.count("tree.snapshot.tmp") == tried, "again only when twice as long"
    assert files.contents.keys() == {"tree.journal"}, "half a snapshot takes no room"

    again = EmbeddedTree(FixedClock(), MemoryTreeFiles(files.snapshot()))
    assert len(again.dump()) == 42


async def test_every_transaction_is_on_the_device_at_once(
    files: MemoryTreeFiles, session: TreeSession
) -> None:
    before = files.fsyncs
    await session.create("/a")
    await session.set("/a", b"x")
    assert before == 2  # the header and the name of the journal come first
    assert files.fsyncs - before == 2


async def test_many_transactions_share_one_sync(
    files: MemoryTreeFiles, session: TreeSession
) -> None:
    before = files.fsyncs
    await session.multi_all([(CreateOp(f"/{name}"),) for name in "abc"])
    assert files.fsyncs - before == 1


async def test_of_many_transactions_each_is_refused_by_itself(session: TreeSession) -> None:
    done, refused, later = await session.multi_all(
        [(CreateOp("/a"),), (CreateOp("/b"), CreateOp("/a")), (SetOp("/a", b"x", 0),)]
    )
    assert done == ["/a"]
    assert isinstance(refused, NodeExistsError)
    assert refused.op_index == 1
    assert isinstance(later, list)
    assert await session.children("/") == ["a"]


async def test_many_nodes_are_read_with_none_for_those_that_are_not_there(
    session: TreeSession,
) -> None:
    await session.create("/a", b"1")
    seen: list[str] = []
    found = await session.get_all(["/a", "/b"], lambda event: seen.append(event.path))
    assert [node and node[0] for node in found] == [b"1", None]
    await session.set("/a", b"2")
    await session.create("/b")
    await asyncio.sleep(0)
    assert seen == ["/a"]


async def test_what_changed_while_a_session_was_cut_off_is_told_when_it_is_back(
    tree: EmbeddedTree, session: TreeSession
) -> None:
    other = tree.session()
    states: list[SessionState] = []
    seen: list[WatchEvent] = []
    other.add_session_listener(states.append)
    await session.create("/a")
    await other.get("/a", seen.append)
    other.suspend()
    await session.delete("/a")
    with pytest.raises(TreeUnavailableError):
        await other.get("/a")
    await asyncio.sleep(0)
    assert seen == []
    other.resume()
    await asyncio.sleep(0)
    assert [event.type for event in seen] == [EventType.DELETED]
    assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]


async def test_after_a_lost_session_the_next_has_another_id_and_the_watches_are_kept(
    tree: EmbeddedTree, session: TreeSession
) -> None:
    other = tree.session()
    seen: list[WatchEvent] = []
    await session.create("/ids")
    await other.create("/ids/1", ephemeral=True)
    await other.children("/ids", seen.append)
    first_id = other.session_id
    other.expire()
    other.renew()
    assert other.session_id != first_id
    assert await other.children("/ids") == []
    await asyncio.sleep(0)
    assert [event.type for event in seen] == [EventType.CHILDREN_CHANGED]


async def test_after_a_failed_sync_the_tree_is_written_anew(
    files: MemoryTreeFiles, session: TreeSession
) -> None:
    files.fails_to_sync = True
    with pytest.raises(TreeUnavailableError):
        await session.multi_all([(CreateOp("/a"),)])
    with pytest.raises(TreeUnavailableError):
        await session.create("/b")
    files.fails_to_sync = False
    await session.create("/c")
    assert "tree.snapshot" in files.contents

    again = EmbeddedTree(FixedClock(), MemoryTreeFiles(files.snapshot()))
    assert [path for path, _, _ in again.dump()] == ["/", "/a", "/c"]


def test_a_journal_that_was_never_on_the_device_is_empty() -> None:
    files = MemoryTreeFiles({"tree.journal": bytes(40)})

    tree = EmbeddedTree(FixedClock(), files)

    assert [path for path, _, _ in tree.dump()] == ["/"]
    assert files.snapshot()["tree.journal"].startswith(b"KBTJ")


async def _kept_in_both_files() -> dict[str, bytes]:
    """A tree whose older part is in a snapshot, and whose newest node is in the journal."""
    files = MemoryTreeFiles()
    session = EmbeddedTree(FixedClock(), files, compact_bytes=100).session()
    await session.create("/old", bytes(100))
    await session.create("/new")
    return files.snapshot()


async def test_a_journal_without_the_snapshot_that_it_goes_on_from_is_refused() -> None:
    kept = await _kept_in_both_files()
    del kept["tree.snapshot"]
    with pytest.raises(CorruptTreeError, match=r"goes on at zxid 3, .*tree\.snapshot is missing"):
        EmbeddedTree(FixedClock(), MemoryTreeFiles(kept))


async def test_a_journal_behind_an_older_snapshot_is_refused() -> None:
    kept = await _kept_in_both_files()
    older = MemoryTreeFiles()
    EmbeddedTree(FixedClock(), older, compact_bytes=20).session()
    kept["tree.snapshot"] = older.snapshot()["tree.snapshot"]
    with pytest.raises(CorruptTreeError, match=r"goes on at zxid 3, .*tree\.snapshot ends at 1"):
        EmbeddedTree(FixedClock(), MemoryTreeFiles(kept))


async def test_a_snapshot_without_its_journal_is_refused() -> None:
    kept = await _kept_in_both_files()
    del kept["tree.journal"]
    with pytest.raises(CorruptTreeError, match=r"tree\.journal is missing"):
        EmbeddedTree(FixedClock(), MemoryTreeFiles(kept))
