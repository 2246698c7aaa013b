"""Whatever two trees hold, and wherever copies break off: in the end the target is as the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from kbroker.zk import tree_copy
from kbroker.zk.embedded.embedded_tree import EmbeddedTree, TreeSession
from kbroker.zk.tree import Op, OpResult, TreeError, TreeUnavailableError
from tests.fakes.trees.memory_tree_files import FixedClock

CLUSTER = {"/cluster/id": b'{"version":"1","id":"C"}'}
_names = st.sampled_from(["a", "b", "brokers", "config", "zookeeper"])
_paths = st.lists(_names, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))
_trees = st.dictionaries(_paths, st.one_of(st.none(), st.binary(max_size=3)), max_size=12)


class Fragile(TreeSession):
    """A session that goes away after so many transactions."""

    left = 0

    async def multi_all(
        self, transactions: Sequence[Sequence[Op]]
    ) -> list[list[OpResult] | TreeError]:
        done = await super().multi_all(transactions[: self.left])
        self.left -= len(done)
        if len(done) < len(transactions):
            raise TreeUnavailableError("/")
        return done


async def fill(session: TreeSession, nodes: Mapping[str, bytes | None]) -> None:
    for path, data in nodes.items():
        if await session.exists(path) is None:
            await session.create(path, make_parents=True)
        await session.set(path, data)


def outlasting(store: EmbeddedTree) -> dict[str, bytes]:
    return {
        path: data or b"" for path, data, _ in store.dump() if not path.startswith("/zookeeper")
    }


@given(_trees, _trees, st.lists(st.integers(0, 20), max_size=8))
async def test_a_copy_repeated_until_it_ends_makes_the_target_as_the_source(
    source_nodes: dict[str, bytes | None], target_nodes: dict[str, bytes | None], breaks: list[int]
) -> None:
    stores = [EmbeddedTree(FixedClock()) for _ in range(2)]
    source = stores[0].session()
    await fill(source, source_nodes | CLUSTER)
    await fill(stores[1].session(), target_nodes | CLUSTER)
    target = Fragile(stores[1], stores[1].session().session_id)
    for left in (*breaks, 1000):
        target.left = left
        images = [await tree_copy.read_tree(tree) for tree in (source, target)]
        plan = tree_copy.plan_copy(*images, replace=True)
        with suppress(TreeUnavailableError):
            await tree_copy.carry_out(target, plan)
    assert outlasting(stores[1]) == outlasting(stores[0])
