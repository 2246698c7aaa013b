"""The tree's operations in kazoo's terms: requests, their answers, and errors.

Law: no kazoo value or error leaves this module, `kazoo_connection` and `kazoo_parts`, so that the
rest of the broker does not know which library talks to ZooKeeper. Paths are whole here, with the
chroot.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from kazoo import exceptions as kazoo_errors
from kazoo.protocol.serialization import (
    CheckVersion,
    Create,
    Delete,
    Exists,
    GetChildren2,
    GetData,
    SetACL,
    SetData,
    Sync,
    Transaction,
)
from kazoo.protocol.states import ZnodeStat
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from kbroker.zk.ensemble.node_rights import Rights, RightsOf, open_rights
from kbroker.zk.tree import (
    MAX_NODE_BYTES,
    BadVersionError,
    CheckOp,
    CreateOp,
    DeleteOp,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NodeTooLargeError,
    NoNodeError,
    NotEmptyError,
    Op,
    OpResult,
    SessionExpiredError,
    SetOp,
    Stat,
    TreeError,
)

# jute.maxbuffer: a server breaks the connection over a longer request, and over it again and again.
MAX_REQUEST_BYTES = 0xFFFFF
_SET_WATCHES_BYTES = 128 << 10
_STAT = struct.Struct(">qqqqiiiqiiq")
_MULTI_HEADER = struct.Struct(">i?i")  # kind of the operation, whether this is the end, error
_END_OF_MULTI = _MULTI_HEADER.pack(-1, True, -1)
_REQUEST_OVERHEAD_BYTES = 96  # header; and per operation its header, lengths, rights and flags
_EPHEMERAL, _SEQUENTIAL = 1, 2
_ACLS = {
    Rights.OPEN: OPEN_ACL_UNSAFE,
    Rights.READABLE: [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE],
    Rights.SECRET: CREATOR_ALL_ACL,
}

_ERRORS: dict[type[Exception], type[TreeError]] = {
    kazoo_errors.NoNodeError: NoNodeError,
    kazoo_errors.NodeExistsError: NodeExistsError,
    kazoo_errors.BadVersionError: BadVersionError,
    kazoo_errors.NotEmptyError: NotEmptyError,
    kazoo_errors.NoChildrenForEphemeralsError: NoChildrenForEphemeralsError,
    kazoo_errors.SessionExpiredError: SessionExpiredError,
    kazoo_errors.ConnectionClosedError: SessionExpiredError,
}
# After these, nobody knows what became of the request.
_LOST = (
    kazoo_errors.ConnectionLoss,
    kazoo_errors.OperationTimeoutError,
    kazoo_errors.RequestTimeoutError,
    kazoo_errors.SessionMovedError,
)
_FOLLOWS_ANOTHER = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)

Request = Any  # one of kazoo's request tuples, or SetWatches, or GetMany
Node = tuple[bytes | None, Stat]  # its data and stat


class AnswerLostError(Exception):
    """The connection broke before the answer came: the request may or may not have been done."""


class RefusedByEnsembleError(TreeError):
    """The ensemble refused for a reason that a tree of its own would not have (rights, quotas)."""

    def __init__(self, path: str, reason: str, op_index: int = 0) -> None:
        super().__init__(path, op_index)
        self.args = (f"{path}: {reason}",)


class NoRightsError(RefusedByEnsembleError):
    """The nodes are for others: for those who log in as their maker did."""


class LoginRefusedError(RefusedByEnsembleError):
    """The ensemble does not know who asks: the login is wrong, or it takes none of this kind."""


class UnknownRequestError(RefusedByEnsembleError):
    """A server of an older release does not know the request; it has ended the connection, too."""


_REFUSALS: dict[type[Exception], type[RefusedByEnsembleError]] = {
    kazoo_errors.UnimplementedError: UnknownRequestError,
    kazoo_errors.NoAuthError: NoRightsError,
    kazoo_errors.AuthFailedError: LoginRefusedError,
    kazoo_errors.SessionClosedRequireSaslError: LoginRefusedError,
    kazoo_errors.InvalidACLError: LoginRefusedError,  # rights of the maker, who is unknown there
}


class SetWatches:
    """Sets many watches at once; changes since `zxid` fire at once.

    Java's client sends it after it has connected again; kazoo does not know it.
    """

    type = 101

    def __init__(
        self, zxid: int, data: Sequence[str], exists: Sequence[str], children: Sequence[str]
    ) -> None:
        self._zxid = zxid
        self._paths = (data, exists, children)

    def serialize(self) -> bytes:
        """Relative zxid, then the three lists."""
        parts = [struct.pack(">q", self._zxid)]
        for paths in self._paths:
            parts.append(struct.pack(">i", len(paths)))
            for path in paths:
                encoded = path.encode()
                parts.append(struct.pack(">i", len(encoded)) + encoded)
        return b"".join(parts)

    def deserialize(self, _buffer: bytes, _offset: int) -> None:
        """The empty answer: there is nothing to read."""


class GetMany:
    """Reads many nodes that may not all exist; servers know it from ZooKeeper 3.6 on.

    Java's client calls it a multi of reads; kazoo does not know it.
    """

    type = 22

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytes:
        """The reads, none of them with a watch."""
        parts: list[bytes] = []
        for path in self._paths:
            encoded = path.encode()
            head = _MULTI_HEADER.pack(GetData.type, False, -1)
            parts += (head, struct.pack(">i", len(encoded)), encoded, b"\0")
        return b"".join((*parts, _END_OF_MULTI))

    def deserialize(self, buffer: bytes, offset: int) -> list[Node | Exception]:
        """Data and stat of each, or kazoo's error."""
        found: list[Node | Exception] = []
        while True:
            kind, is_end, error = _MULTI_HEADER.unpack_from(buffer, offset)
            offset += _MULTI_HEADER.size
            if is_end:
                return found
            if kind == -1:
                found.append(kazoo_errors.EXCEPTIONS[error]())
                offset += 4  # the error again
                continue
            (length,) = struct.unpack_from(">i", buffer, offset)
            start = offset + 4
            offset = start + max(length, 0)
            data = None if length < 0 else bytes(buffer[start:offset])
            found.append((data, _stat_in(buffer, offset)))
            offset += _STAT.size


def whole_path(chroot: str, path: str) -> str:
    """The path on the ensemble, chroot included."""
    return (chroot + path).rstrip("/") or "/"


def get_request(path: str, *, watched: bool) -> Request:
    return GetData(path, watched)


def exists_request(path: str, *, watched: bool) -> Request:
    """Reads the stat, None for no node."""
    return Exists(path, watched)


def children_request(path: str, *, watched: bool) -> Request:
    return GetChildren2(path, watched)


def get_many_request(paths: Sequence[str]) -> Request:
    return GetMany(paths)


def set_rights_request(path: str, rights: Rights) -> Request:
    return SetACL(path, _ACLS[rights], -1)


def sync_request(path: str) -> Request:
    """Lets the server catch up with everything that the ensemble has agreed on."""
    return Sync(path)


def transaction_request(
    ops: Sequence[Op], prefix: str, rights_of: RightsOf = open_rights
) -> Request:
    """One operation, or a transaction of several; `prefix` is the chroot."""
    requests = [_operation(op, prefix, rights_of) for op in ops]
    if len(requests) > 1 or isinstance(ops[0], CheckOp):
        return Transaction(requests)
    return requests[0]


def check_request_size(ops: Sequence[Op], prefix: str) -> None:
    """Raise NodeTooLargeError for a request that a server would not take."""
    for index, op in enumerate(ops):
        if isinstance(op, CreateOp | SetOp) and len(op.data or b"") > MAX_NODE_BYTES:
            raise NodeTooLargeError(op.path, index)
    sizes = [_size_bytes(op, prefix) for op in ops]
    if sum(sizes) + _REQUEST_OVERHEAD_BYTES > MAX_REQUEST_BYTES:
        largest = max(range(len(sizes)), key=sizes.__getitem__)
        raise NodeTooLargeError(ops[largest].path, largest)


def write_results(ops: Sequence[Op], answer: Any) -> list[OpResult]:
    """Results of the operations; `CreateOp` yields a whole path. Raises the first one's error."""
    answers = answer if isinstance(answer, list) else [answer]
    for index, (op, result) in enumerate(zip(ops, answers, strict=True)):
        if isinstance(result, Exception) and not isinstance(result, _FOLLOWS_ANOTHER):
            raise tree_error(result, op.path, index)
    failed = next((a for a in answers if isinstance(a, Exception)), None)
    if failed is not None:
        raise tree_error(failed, ops[0].path)
    return [_result(op, result) for op, result in zip(ops, answers, strict=True)]


def stat_of(stat: ZnodeStat) -> Stat:
    return Stat(
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        ctime_ms=stat.ctime,
        mtime_ms=stat.mtime,
        version=stat.version,
        cversion=stat.cversion,
        ephemeral_owner=stat.ephemeralOwner,
        data_length=stat.dataLength,
        num_children=stat.numChildren,
    )


def tree_error(error: BaseException, path: str, op_index: int = 0) -> Exception:
    """The tree's error for one of kazoo's, or AnswerLostError."""
    if isinstance(error, _LOST):
        return AnswerLostError(path)
    known = _ERRORS.get(type(error))  # type: ignore[arg-type]
    if known is not None:
        return known(path, op_index)
    refusal = _REFUSALS.get(type(error), RefusedByEnsembleError)  # type: ignore[arg-type]
    return refusal(path, f"{type(error).__name__} {error}".strip(), op_index)


def set_watches_requests(
    zxid: int, kinds: Sequence[Sequence[str]]
) -> Iterator[tuple[Request, list[tuple[int, str]]]]:
    """Requests of a bounded size for paths by kind (data, exists, children), and their paths."""
    chunk: list[tuple[int, str]] = []
    size_bytes = 0
    for kind, paths in enumerate(kinds):
        for path in paths:
            chunk.append((kind, path))
            size_bytes += len(path.encode()) + 4
            if size_bytes >= _SET_WATCHES_BYTES:
                yield _set_watches(zxid, chunk), chunk
                chunk, size_bytes = [], 0
    if chunk:
        yield _set_watches(zxid, chunk), chunk


def _set_watches(zxid: int, chunk: Sequence[tuple[int, str]]) -> SetWatches:
    data, exists, children = ([path for k, path in chunk if k == kind] for kind in range(3))
    return SetWatches(zxid, data, exists, children)


def _stat_in(buffer: bytes, offset: int) -> Stat:
    return stat_of(ZnodeStat._make(_STAT.unpack_from(buffer, offset)))


def _operation(op: Op, prefix: str, rights_of: RightsOf) -> Request:
    path = (prefix + op.path) if op.path != "/" else prefix or "/"
    match op:
        case CreateOp():
            flags = _EPHEMERAL * op.ephemeral | _SEQUENTIAL * op.sequential
            return Create(path, op.data, _ACLS[rights_of(op.path)], flags)
        case SetOp():
            return SetData(path, op.data, op.version)
        case DeleteOp():
            return Delete(path, op.version)
        case CheckOp():
            return CheckVersion(path, op.version)


def _size_bytes(op: Op, prefix: str) -> int:
    data = op.data if isinstance(op, CreateOp | SetOp) else None
    return len(data or b"") + len((prefix + op.path).encode()) + _REQUEST_OVERHEAD_BYTES


def _result(op: Op, answer: Any) -> OpResult:
    if isinstance(op, SetOp):
        return stat_of(answer)
    return str(answer) if isinstance(op, CreateOp) else None
