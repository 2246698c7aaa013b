"""An embedded tree that writes down what is done to it: every transaction that was carried out, and
every end of a session, in order and with the name of who did it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbroker.clock import Clock
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.tree import CheckOp, CreateOp, DeleteOp, Op, OpResult, SetOp, Stat


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One operation. `version` is the one asked for in a check, the new one in a set."""

    op: str
    path: str
    data: str | None = None
    version: int | None = None
    ephemeral: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """Operations that were done together; `session-close` has the ephemeral nodes that went."""

    by: str
    writes: tuple[Write, ...]


class RecordingTree(EmbeddedTree):
    """What was carried out is in `transactions`; refused transactions leave no trace."""

    def __init__(self, clock: Clock) -> None:
        self.transactions: list[Transaction] = []
        self.names: dict[int, str] = {}  # session id: who that is
        super().__init__(clock)

    def take(self) -> list[Transaction]:
        """Return the transactions since the last call."""
        taken, self.transactions = self.transactions, []
        return taken

    def _commit(self, ops: Sequence[Op], session_id: int, *, lazy: bool = False) -> list[OpResult]:
        results = super()._commit(ops, session_id, lazy=lazy)
        if ops:
            writes = [_write(op, result) for op, result in zip(ops, results, strict=True)]
            self._note(session_id, writes)
        return results

    def _drop_ephemerals(self, session_id: int) -> None:
        paths = sorted(self._tree.ephemerals.get(session_id, ()))
        noted = len(self.transactions)
        super()._drop_ephemerals(session_id)
        del self.transactions[noted:]
        self._note(session_id, [Write(op="session-close", path=path) for path in paths])

    def _note(self, session_id: int, writes: Sequence[Write]) -> None:
        by = self.names.get(session_id, "")
        self.transactions.append(Transaction(by=by, writes=tuple(writes)))


def _write(op: Op, result: OpResult) -> Write:
    if isinstance(op, CheckOp):
        return Write(op="check", path=op.path, version=op.version)
    if isinstance(op, CreateOp):
        assert isinstance(result, str)
        return Write(op="create", path=result, data=_text(op.data), ephemeral=op.ephemeral)
    if isinstance(op, SetOp):
        assert isinstance(result, Stat)
        return Write(op="set", path=op.path, data=_text(op.data), version=result.version)
    assert isinstance(op, DeleteOp)
    return Write(op="delete", path=op.path)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
