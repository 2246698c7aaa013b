"""What became of a transaction is told from the tree alone, and never guessed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from kbroker.zk.embedded.embedded_tree import EmbeddedTree, TreeSession
from kbroker.zk.ensemble.lost_write import (
    FoundNode,
    LostWrite,
    LostWriteLookup,
    Verdict,
    needed_paths,
    written_paths,
)
from kbroker.zk.tree import CheckOp, CreateOp, DeleteOp, NoNodeError, Op, OpResult, SetOp, Stat
from tests.fakes.trees.memory_tree_files import FixedClock


@dataclass
class World:
    """A tree with a session that loses answers, and another that interferes."""

    tree: EmbeddedTree
    session: TreeSession
    other: TreeSession
    changed_parents: bool = True

    def lost(self, *ops: Op) -> LostWrite:
        """The transaction is sent now."""
        return LostWrite(ops, self.session.session_id, self.tree.zxid)

    async def verdict(self, lost: LostWrite) -> Verdict:
        return await self._lookup(lost).verdict()

    async def results(self, lost: LostWrite) -> Sequence[OpResult] | None:
        lookup = self._lookup(lost)
        assert await lookup.verdict() is Verdict.DONE
        return await lookup.results()

    def _lookup(self, lost: LostWrite) -> LostWriteLookup:
        return LostWriteLookup(lost, self._read, self.other.children)

    async def _read(self, path: str) -> FoundNode | None:
        try:
            data, stat = await self.other.get(path)
        except NoNodeError:
            return None
        return FoundNode(data, stat, self.tree.zxid if self.changed_parents else 0)


@pytest.fixture
def world() -> World:
    tree = EmbeddedTree(FixedClock())
    return World(tree, tree.session(), tree.session())


async def test_an_ephemeral_node_is_told_by_its_owner(world: World) -> None:
    lost = world.lost(CreateOp("/e", None, ephemeral=True), SetOp("/e", b"data"))
    assert await world.verdict(lost) is Verdict.NOT_DONE
    await world.other.create("/e", b"data", ephemeral=True)
    assert await world.verdict(lost) is Verdict.NOT_DONE
    await world.other.delete("/e")
    await world.session.multi(lost.ops)
    path, stat = await world.results(lost) or []
    assert (path, stat) == ("/e", (await world.session.get("/e"))[1])
    later = world.lost(CreateOp("/e", None, ephemeral=True))
    assert await world.verdict(later) is Verdict.NOT_DONE


async def test_a_versioned_set_is_told_by_version_and_data(world: World) -> None:
    await world.session.create("/a", b"0")
    lost = world.lost(CheckOp("/a", 0), SetOp("/a", b"1", 0))
    assert await world.verdict(lost) is Verdict.NOT_DONE
    await world.session.multi(lost.ops)
    assert await world.results(lost) == [None, (await world.session.get("/a"))[1]]
    theirs = world.lost(SetOp("/a", b"mine", 1))
    await world.other.set("/a", b"theirs", 1)
    assert await world.verdict(theirs) is Verdict.NOT_DONE
    await world.other.set("/a", b"again", 2)
    assert await world.verdict(theirs) is Verdict.UNKNOWN
    gone = world.lost(SetOp("/a", b"mine", 3))
    await world.other.delete("/a")
    assert await world.verdict(gone) is Verdict.NOT_DONE


async def test_a_set_for_any_version_is_repeated_only_when_nobody_has_written_since(
    world: World,
) -> None:
    await world.session.create("/a", b"0")
    lost = world.lost(SetOp("/a", b"x"), SetOp("/a", b"1"))
    assert await world.verdict(lost) is Verdict.NOT_DONE
    results = await world.session.multi(lost.ops)
    assert isinstance(results[1], Stat)
    found = await world.results(lost)
    assert found is not None
    assert [s.version for s in found if isinstance(s, Stat)] == [1, 2]
    assert found[1] == results[1]
    await world.other.set("/a", b"theirs")
    assert await world.verdict(lost) is Verdict.UNKNOWN


async def test_a_persistent_node_is_told_by_its_making_and_data(world: World) -> None:
    lost = world.lost(CreateOp("/a", b"x"))
    assert await world.verdict(lost) is Verdict.NOT_DONE
    await world.session.multi(lost.ops)
    assert await world.results(lost) == ["/a"]
    assert await world.verdict(world.lost(CreateOp("/a", b"x"))) is Verdict.NOT_DONE
    await world.other.set("/a", b"y")
    assert await world.verdict(lost) is Verdict.UNKNOWN


async def test_sequential_nodes_are_told_by_data_and_owner_among_those_made_since(
    world: World,
) -> None:
    await world.session.create("/c")
    await world.session.create("/c/n_", b"x", sequential=True)
    lost = world.lost(
        CreateOp("/c/n_", b"x", sequential=True),
        CreateOp("/c/n_", b"x", sequential=True),
    )
    await world.other.create("/c/n_other", b"x")
    await world.other.create("/c/n_", b"theirs", sequential=True)
    await world.other.create("/c/n_", b"x", ephemeral=True, sequential=True)
    assert await world.verdict(lost) is Verdict.NOT_DONE
    made = await world.session.multi(lost.ops)
    await world.other.create("/c/n_", b"later", sequential=True)
    assert await world.results(lost) == made


async def test_a_delete_is_told_by_the_node_that_is_gone(world: World) -> None:
    await world.session.create("/a", b"")
    lost = world.lost(DeleteOp("/a", 0))
    assert await world.verdict(lost) is Verdict.NOT_DONE
    await world.session.delete("/a")
    assert await world.results(lost) == [None]
    await world.other.create("/a", b"")
    assert await world.verdict(lost) is Verdict.DONE, "the one that was meant is gone"
    fenced = LostWrite((CheckOp("/", 0), *lost.ops), lost.session_id, lost.zxid_before)
    assert await world.verdict(fenced) is Verdict.UNKNOWN


async def test_a_delete_of_what_was_not_there_is_not_done_when_nothing_changed(
    world: World,
) -> None:
    world.changed_parents = False
    assert await world.verdict(world.lost(DeleteOp("/a"))) is Verdict.NOT_DONE
    assert await world.verdict(world.lost(DeleteOp("/x/y"))) is Verdict.NOT_DONE


async def test_a_transaction_that_leaves_nothing_may_be_done_again(world: World) -> None:
    await world.session.create("/a", b"")
    assert await world.verdict(world.lost(CheckOp("/a", 0))) is Verdict.NOT_DONE
    brief = world.lost(CreateOp("/b"), DeleteOp("/b"))
    assert await world.verdict(brief) is Verdict.NOT_DONE


async def test_results_that_cannot_be_told_are_none(world: World) -> None:
    await world.session.create("/a", b"")
    lost = world.lost(CreateOp("/e", ephemeral=True), SetOp("/a", b"1"))
    await world.session.multi(lost.ops)
    await world.other.delete("/a")
    assert await world.results(lost) is None


def test_writes_that_could_hide_each_other_are_known() -> None:
    ops = (
        CheckOp("/fence", 1),
        CreateOp("/c/n_", sequential=True),
        SetOp("/a", b""),
        DeleteOp("/b"),
    )
    assert written_paths(ops) == ["/c/n_*", "/a", "/b"]
    assert needed_paths(ops) == ["/fence", "/c", "/"]
