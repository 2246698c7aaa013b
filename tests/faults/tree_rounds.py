"""A hunt for differences between the stores of the tree, and for writes done twice or never, with
connections that break at random moments.

    python -m tests.faults.tree_rounds --rounds 100 --seed 1 [--servers 3]

A series is one row of random operations, done on the embedded tree and on ZooKeeper: outcomes, final
tree and what a follower made of its watches have to be the same. A contest lets several sessions
count up by versions, make sequential nodes and take a lock: what succeeded has to have happened
once.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from compat_tests.running.tcp_proxy import TO_CLIENT, TO_SERVER
from compat_tests.running.zookeeper_servers import ZooKeeperServers, zookeeper_servers
from kbroker.zk.tree import (
    ANY_VERSION,
    BadVersionError,
    CheckOp,
    CreateOp,
    DeleteOp,
    NodeExistsError,
    NoNodeError,
    Op,
    OpResult,
    SetOp,
    Stat,
    Tree,
    TreeError,
    TreeUnavailableError,
    WatchEvent,
)
from tests.fakes.running.waiting import until
from tests.integration.tree_stores import EmbeddedStore, EnsembleStore, TreeStore

_PATHS = ("/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/1", "/seq", "/seq/n_")
_STEPS = 120
_CONTESTANTS, _TURNS = 3, 25
_CONTEST_SESSION_MS = 20_000  # they shall not end, however busy the machine is

Nodes = dict[str, tuple[bytes | None, int, bool]]  # data, version, whether ephemeral


# ---- series: two stores do the same


@dataclass(frozen=True)
class Step:
    """Transactions to do in a row, and what happens to connections meanwhile."""

    rows: tuple[tuple[Op, ...], ...]
    fault: str  # of the writer: "", cut, answer, request, expire
    follower_fault: str  # "", cut, expire


def series(seed: int) -> list[Step]:
    """A random row of steps."""
    draw = random.Random(seed)
    return [
        Step(
            tuple(_transaction(draw) for _ in range(draw.choice((1, 1, 1, 2, 5)))),
            draw.choice(("", "", "", "", "cut", "answer", "request", "expire")),
            draw.choice(("", "", "", "", "", "cut", "expire")),
        )
        for _ in range(_STEPS)
    ]


def _transaction(draw: random.Random) -> tuple[Op, ...]:
    return tuple(_operation(draw) for _ in range(draw.choice((1, 1, 1, 2, 3))))


def _operation(draw: random.Random) -> Op:
    path = draw.choice(_PATHS)
    data = draw.choice((None, b"", b"1", b"2"))
    version = draw.choice((ANY_VERSION, ANY_VERSION, 0, 0, 1, 2))
    kind = draw.choice(("create", "create", "create", "set", "set", "delete", "check"))
    if kind == "create":
        sequential = path == "/seq/n_"
        return CreateOp(path, data, draw.random() < 0.2, sequential)
    if kind == "set":
        return SetOp(path, data, version)
    return DeleteOp(path, version) if kind == "delete" else CheckOp(path, max(version, 0))


@dataclass
class Told:
    """What came of a series on one store."""

    outcomes: list[object] = field(default_factory=list)
    nodes: Nodes = field(default_factory=dict)
    followed: Nodes = field(default_factory=dict)


async def play_series(store: TreeStore, steps: list[Step]) -> Told:
    """Do the steps one after the other; another session follows what happens by watches."""
    told = Told()
    try:
        writer, session = await store.open(), await store.open()
        follower = _Follower(session)
        await follower.read("/")
        for step in steps:
            if step.follower_fault == "expire":
                await store.expire(session)
            elif step.follower_fault == "cut":
                await store.cut_off(session)
            told.outcomes += await _do(store, writer, step)
            if step.follower_fault == "cut":
                await store.reconnect(session)
        told.nodes = await _nodes(writer)
        with suppress(AssertionError):  # the difference says more
            await until(lambda: follower.nodes == told.nodes, timeout_s=5)
        told.followed = follower.nodes
        await follower.end()
    finally:
        await store.close()
    return told


async def _do(store: TreeStore, writer: Tree, step: Step) -> list[object]:
    if step.fault == "expire":
        await store.expire(writer)
    if step.fault == "cut" and not isinstance(store, EnsembleStore):
        await store.cut_off(writer)
        await store.reconnect(writer)
    if not isinstance(store, EnsembleStore) or step.fault not in {"cut", "answer", "request"}:
        return [_shape(outcome) for outcome in await writer.multi_all(step.rows)]
    proxy = store.proxy(writer)
    direction = TO_SERVER if step.fault == "request" else TO_CLIENT
    if step.fault != "cut":
        proxy.swallow(direction)
    call = asyncio.ensure_future(writer.multi_all(step.rows))
    if step.fault == "cut":
        await asyncio.sleep(0)
    else:
        await asyncio.to_thread(proxy.wait_swallowed, direction)
    proxy.cut()
    return [_shape(outcome) for outcome in await call]


def _shape(outcome: list[OpResult] | TreeError) -> object:
    """An outcome without what differs between stores, zxids and times, and without the number of
    children: a lost set is told as of its lookup.
    """
    if isinstance(outcome, TreeError):
        return type(outcome).__name__, outcome.path, outcome.op_index
    return [(r.version, r.data_length) if isinstance(r, Stat) else r for r in outcome]


async def _nodes(session: Tree) -> Nodes:
    found: Nodes = {}
    paths = ["/"]
    for path in paths:
        data, stat = await session.get(path)
        if path != "/":
            found[path] = (data, stat.version, bool(stat.ephemeral_owner))
        names = await session.children(path)
        paths += [f"{path.rstrip('/')}/{n}" for n in names if f"/{n}" != "/zookeeper"]
    return found


class _Follower:
    """Keeps a copy of the whole tree by watches alone."""

    def __init__(self, session: Tree) -> None:
        self.nodes: Nodes = {}
        self._session = session
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = False

    async def read(self, path: str) -> None:
        while not self._ended:
            try:
                await self._read(path)
                return
            except TreeUnavailableError:
                await asyncio.sleep(0.005)  # cut off: again, until it can be read

    async def end(self) -> None:
        self._ended = True
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read(self, path: str) -> None:
        try:
            data, stat = await self._session.get(path, self._on_event)
            names = await self._session.children(path, self._on_event)
        except NoNodeError:
            self.nodes.pop(path, None)
            return
        if path != "/":
            self.nodes[path] = (data, stat.version, bool(stat.ephemeral_owner))
        for name in names:
            child = f"{path.rstrip('/')}/{name}"
            if child not in self.nodes and child != "/zookeeper":
                await self.read(child)

    def _on_event(self, event: WatchEvent) -> None:
        task = asyncio.ensure_future(self.read(event.path))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def compare_series(seed: int, servers: ZooKeeperServers) -> list[str]:
    """List the differences between the stores, or between tree and follower."""
    steps = series(seed)
    embedded = await play_series(EmbeddedStore(), steps)
    ensemble = await play_series(EnsembleStore(servers, f"/series-{seed}"), steps)
    rows = [row for step in steps for row in step.rows]
    found = [
        f"{row}: embedded {one}, ensemble {other}"
        for row, one, other in zip(rows, embedded.outcomes, ensemble.outcomes, strict=True)
        if one != other and not _is_gone_either_way(row, one, other)
    ]
    for name, one, other in (
        ("trees", embedded.nodes, ensemble.nodes),
        ("embedded and its follower", embedded.nodes, embedded.followed),
        ("ensemble and its follower", ensemble.nodes, ensemble.followed),
    ):
        if one != other:
            found.append(f"{name}: {sorted(one.items() ^ other.items())}")
    return found[:5]


def _is_gone_either_way(row: tuple[Op, ...], one: object, other: object) -> bool:
    """A lost delete of a node that was not there cannot always be told from one that was done."""
    is_delete = len(row) == 1 and isinstance(row[0], DeleteOp)
    return is_delete and one == ("NoNodeError", row[0].path, 0) and other == [None]


# ---- contest: several sessions at once


@dataclass
class _Score:
    counted: int = 0
    uncertain: int = 0
    made: list[str] = field(default_factory=list)
    locked: int = 0
    faults: list[str] = field(default_factory=list)


async def play_contest(seed: int, servers: ZooKeeperServers) -> list[str]:
    """List what was done twice, never, or by two at a time."""
    store = EnsembleStore(servers, f"/contest-{seed}")
    score = _Score()
    try:
        sessions = [await store.open(_CONTEST_SESSION_MS) for _ in range(_CONTESTANTS)]
        await sessions[0].multi((CreateOp("/count", b"0"), CreateOp("/n"), CreateOp("/held", b"")))
        over = asyncio.Event()
        disturbers = [asyncio.ensure_future(_disturb(store, sessions, seed, over))]
        if len(servers.servers) > 1:
            disturbers.append(asyncio.ensure_future(_kill_servers(servers, seed, over)))
        await asyncio.gather(
            *(
                turn(session, score)
                for session in sessions
                for turn in (_count_up, _make_nodes, _take_lock)
            )
        )
        over.set()
        await asyncio.gather(*disturbers)
        for session in sessions:
            for proxy in store.proxies(session):
                proxy.heal()
        _, stat = await sessions[0].get("/count")
        names = await sessions[0].children("/n")
        expected = _CONTESTANTS * _TURNS
        if not score.counted <= stat.version <= score.counted + score.uncertain:
            score.faults.append(f"version {stat.version} after {score}")
        if sorted(score.made) != [f"/n/{name}" for name in names]:
            score.faults.append(f"made {sorted(score.made)}, there are {names}")
        if score.locked != expected:
            score.faults.append(f"locked {score.locked} times")
    finally:
        await store.close()
    return score.faults


async def _disturb(
    store: EnsembleStore, sessions: Sequence[Tree], seed: int, over: asyncio.Event
) -> None:
    draw = random.Random(seed)
    actions: list[Callable[[Tree], Awaitable[None]]] = []

    async def cut(session: Tree) -> None:
        for proxy in store.proxies(session):
            proxy.cut()

    async def lose(session: Tree) -> None:
        for proxy in store.proxies(session):
            proxy.swallow(draw.choice((TO_CLIENT, TO_SERVER)))
        await asyncio.sleep(draw.random() * 0.02)
        await cut(session)

    async def hold(session: Tree) -> None:
        for proxy in store.proxies(session):
            proxy.hold(TO_CLIENT)
        await asyncio.sleep(draw.random() * 0.05)
        for proxy in store.proxies(session):
            proxy.release()

    actions += [cut, lose, lose, hold]
    while not over.is_set():
        await asyncio.sleep(draw.random() * 0.05)
        await draw.choice(actions)(draw.choice(sessions))


async def _kill_servers(servers: ZooKeeperServers, seed: int, over: asyncio.Event) -> None:
    """One after the other, leaders too; a quorum is left each time."""
    draw = random.Random(seed)
    while not over.is_set():
        await asyncio.sleep(draw.random())
        await asyncio.to_thread(draw.choice(servers.servers).restart, kill=True)


async def _count_up(session: Tree, score: _Score) -> None:
    done = 0
    while done < _TURNS:
        data, stat = await session.get("/count")
        count = int((data or b"").partition(b" ")[0])
        try:
            # Two equal writes could not be told apart.
            new = b"%d by %d" % (count + 1, session.session_id)
            await session.set("/count", new, stat.version)
        except BadVersionError:
            continue
        except TreeUnavailableError:
            score.uncertain += 1  # its answer was lost, and others have written since
            continue
        done += 1
    score.counted += done


async def _make_nodes(session: Tree, score: _Score) -> None:
    for _ in range(_TURNS):
        # Whoever else makes one has other data: nobody could tell two equal ones apart.
        data = b"%d" % session.session_id
        score.made.append(await session.create("/n/n_", data, sequential=True))


async def _take_lock(session: Tree, score: _Score) -> None:
    taken = 0
    while taken < _TURNS:
        try:
            await session.create("/lock", ephemeral=True)
        except NodeExistsError:
            await asyncio.sleep(0.002)
            continue
        taken += 1
        stat = await session.exists("/lock")
        if stat is None or stat.ephemeral_owner != session.session_id:
            score.faults.append("a lock that was taken belongs to somebody else")
        await session.delete("/lock", 0)
    score.locked += taken


def main() -> int:
    """The long form: play rounds and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--servers", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    failures = 0
    with zookeeper_servers(options.servers) as servers:
        for seed in range(options.seed, options.seed + options.rounds):
            for play in (compare_series, play_contest):
                for line in asyncio.run(play(seed, servers)):
                    failures += 1
                    print(f"{play.__name__} seed {seed}: {line}", flush=True)
    print(f"{options.rounds} rounds from seed {options.seed}: {failures} differences")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
