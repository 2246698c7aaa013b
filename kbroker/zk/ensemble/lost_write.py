"""Finds out whether a transaction was done whose answer was lost with the connection.

Law: the verdict comes from the tree as it is now, never from a guess. A transaction is atomic, so
one node that can only look as it does because of it speaks for all. It counts as not done only if
doing it (again) is harmless: a version, or an existing node, would refuse a second time.

Whatever the tree cannot show is UNKNOWN, such as data that somebody else has replaced since. Some
traces deceive: the same data from somebody else passes for our own, a sequential node that was
removed meanwhile for one that was never made, and a node that never existed for a deleted one if
its parent has changed since.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from kbroker.zk.tree import (
    ANY_VERSION,
    NO_OWNER,
    CheckOp,
    CreateOp,
    DeleteOp,
    Op,
    OpResult,
    SetOp,
    Stat,
)

_SEQUENCE_DIGITS = 10


@dataclass(frozen=True, slots=True)
class FoundNode:
    """A node as it is now."""

    data: bytes | None
    stat: Stat
    pzxid: int  # last transaction that made or removed a child


ReadNode = Callable[[str], Awaitable[FoundNode | None]]
ReadChildren = Callable[[str], Awaitable[list[str]]]


class Verdict(Enum):
    """The outcome of a transaction."""

    DONE = "done"
    NOT_DONE = "not done"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LostWrite:
    """A transaction without an answer. All its effects have zxids above `zxid_before`."""

    ops: Sequence[Op]
    session_id: int
    zxid_before: int


@dataclass(slots=True)
class _After:
    """How a node looks after the whole transaction, as far as the operations say."""

    path: str
    created: CreateOp | None = None
    exists: bool = True
    data: bytes | None = None
    version: int | None = None  # None: any
    expected_version: bool = False  # an operation asked for a version


def written_paths(ops: Sequence[Op]) -> list[str]:
    """The paths that a transaction writes; no lookup holds while another one writes them too."""
    return [
        f"{op.path}*" if isinstance(op, CreateOp) and op.sequential else op.path
        for op in ops
        if isinstance(op, CreateOp | SetOp | DeleteOp)
    ]


def needed_paths(ops: Sequence[Op]) -> list[str]:
    """The other paths that decide whether a transaction is refused. If a later one has written
    them, a second try might succeed.
    """
    return [
        op.path if isinstance(op, CheckOp) else op.path.rpartition("/")[0] or "/"
        for op in ops
        if not isinstance(op, SetOp)
    ]


class LostWriteLookup:
    """Looks one transaction up, once there is a connection again and the server has caught up."""

    def __init__(self, lost: LostWrite, read: ReadNode, children: ReadChildren) -> None:
        self._lost = lost
        self._read = read
        self._children = children
        self._sequential: dict[int, str] = {}  # paths made, by operation
        self._after = _states_after(lost.ops)

    async def verdict(self) -> Verdict:
        """Whether the transaction was done."""
        ephemeral = [a for a in self._after if a.created is not None and a.created.ephemeral]
        versioned = [a for a in self._after if a.expected_version and a.exists and not a.created]
        created = [a for a in self._after if a.created is not None]
        for after in [*ephemeral, *versioned, *created][:1]:
            return await self._created_or_versioned(after)
        if any(isinstance(op, CreateOp) and op.sequential for op in self._lost.ops):
            return Verdict.DONE if await self._find_sequential() else Verdict.NOT_DONE
        for after in [*(a for a in self._after if not a.exists), *self._after][:1]:
            return await self._deleted_or_set(after)
        return Verdict.NOT_DONE  # it wrote nothing

    async def results(self) -> list[OpResult] | None:
        """The results of a transaction that was done, None if they are no longer known."""
        if not self._sequential:
            await self._find_sequential()
        results: list[OpResult] = []
        for index, op in enumerate(self._lost.ops):
            result: OpResult = None
            if isinstance(op, CreateOp):
                result = self._sequential.get(index) if op.sequential else op.path
            elif isinstance(op, SetOp):
                node = await self._read(op.path)
                rest = self._lost.ops[index + 1 :]
                result = _stat_after(op, rest, node.stat) if node is not None else None
            if result is None and isinstance(op, CreateOp | SetOp):
                return None
            results.append(result)
        return results

    async def _created_or_versioned(self, after: _After) -> Verdict:
        """The verdict on what is refused a second time: without a trace it may be repeated."""
        node = await self._read(after.path)
        if node is None:
            return Verdict.NOT_DONE
        stat = node.stat
        if after.created is not None and after.created.ephemeral:
            is_ours = stat.ephemeral_owner == self._lost.session_id
            return _done(is_ours and stat.czxid > self._lost.zxid_before)
        is_new = (stat.czxid if after.created else stat.mzxid) > self._lost.zxid_before
        if is_new and after.version is not None and stat.version > after.version:
            return Verdict.UNKNOWN  # somebody has written since: over ours, or instead of it
        return _done(is_new and stat.version == after.version and node.data == after.data)

    async def _deleted_or_set(self, after: _After) -> Verdict:
        node = await self._read(after.path)
        if not after.exists:
            if node is None:
                parent = await self._read(after.path.rpartition("/")[0] or "/")
                return _done(parent is not None and parent.pzxid > self._lost.zxid_before)
            if node.stat.czxid <= self._lost.zxid_before:
                return Verdict.NOT_DONE
            # Another node: ours is gone, whoever removed it.
            return Verdict.DONE if len(self._lost.ops) == 1 else Verdict.UNKNOWN
        if node is None or node.stat.mzxid <= self._lost.zxid_before:
            return Verdict.NOT_DONE
        return Verdict.DONE if node.data == after.data else Verdict.UNKNOWN

    async def _find_sequential(self) -> bool:
        """Find the nodes that sequential operations made; False if one does not exist."""
        taken: set[str] = set()
        for index, op in enumerate(self._lost.ops):
            if isinstance(op, CreateOp) and op.sequential:
                path = await self._find_made(op, taken)
                if path is None:
                    return False
                taken.add(path)
                self._sequential[index] = path
        return True

    async def _find_made(self, op: CreateOp, taken: set[str]) -> str | None:
        parent, _, prefix = op.path.rpartition("/")
        names = [
            name
            for name in await self._children(parent or "/")
            if name.startswith(prefix)
            and len(name) == len(prefix) + _SEQUENCE_DIGITS
            and name[len(prefix) :].isdecimal()
        ]
        found = None
        # Numbers rise with zxids: from the newest back to the ones that existed before.
        for name in sorted(names, reverse=True):
            path = f"{parent}/{name}"
            node = await self._read(path)
            if node is None or path in taken:
                continue
            if node.stat.czxid <= self._lost.zxid_before:
                break
            owner = self._lost.session_id if op.ephemeral else NO_OWNER
            if node.data == op.data and node.stat.ephemeral_owner == owner:
                found = path
        return found


def _states_after(ops: Sequence[Op]) -> list[_After]:
    states: dict[str, _After] = {}
    for op in ops:
        if isinstance(op, CreateOp) and not op.sequential:
            states[op.path] = _After(op.path, created=op, data=op.data, version=0)
        elif isinstance(op, SetOp):
            state = states.setdefault(op.path, _After(op.path))
            if op.version != ANY_VERSION:
                state.expected_version = True
                state.version = op.version
            state.version = None if state.version is None else state.version + 1
            state.data = op.data
        elif isinstance(op, DeleteOp):
            state = states.setdefault(op.path, _After(op.path))
            state.exists = False
            if state.created is not None:
                del states[op.path]  # it came and went: nothing to see
    return list(states.values())


def _stat_after(op: SetOp, rest: Sequence[Op], now: Stat) -> Stat:
    """The stat right after the transaction, though the node has been set again since."""
    later = sum(isinstance(other, SetOp) and other.path == op.path for other in rest)
    version = now.version - later if op.version == ANY_VERSION else op.version + 1
    return replace(now, version=version, data_length=len(op.data or b""))


def _done(is_done: bool) -> Verdict:
    return Verdict.DONE if is_done else Verdict.NOT_DONE
