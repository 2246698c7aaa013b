"""The files of an embedded tree: `tree.snapshot` (all nodes at one zxid) and `tree.journal`
(transactions since).

    journal   = "KBTJ" version:int32 frame*
    frame     = size:uint32 crc32:uint32 payload            (crc over the payload)
    payload   = zxid:int64 time_ms:int64 session_id:int64 op*
    op        = kind:uint8 path:string16 [data:bytes32 unless delete]
    kind      = 1 create, 2 create ephemeral, 3 set, 4 delete
    snapshot  = "KBTS" version:int32 crc32:uint32 zxid:int64 node-count:int32 node*
                (crc over zxid to the end)
    node      = name-size:uint16 child-count:uint32 czxid:int64 mzxid:int64 ctime:int64 mtime:int64
                version:int32 cversion:int32 owner:int64 data-size:int32 (-1 none) name data
                (a node's children follow it)

Laws: one write call per transaction, so a killed process leaves whole frames and at most one torn
one at the end, which is cut when the journal is opened; where whole frames follow it, the bytes
were damaged on the device, and the journal as it was is kept under another name.

A transaction is on the device before its caller goes on, unless it was asked for lazily: then
before the next one that was not, or `flush`. After a failed sync nobody knows which frames are on
the device, so the tree is written again as a snapshot before anything else is kept. A snapshot
appears by rename; a journal that still holds transactions the snapshot has is fine, they are
skipped by zxid. Replay is the same code that applied the transaction first.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from errno import EDQUOT, ENOSPC
from struct import Struct
from sys import intern
from typing import Protocol
from zlib import crc32

from kbroker.errors import Trouble
from kbroker.zk.embedded.data_tree import DataTree, Znode
from kbroker.zk.tree import CreateOp, DeleteOp, Op, SetOp, TreeStorageError

JOURNAL_NAME = "tree.journal"
SNAPSHOT_NAME = "tree.snapshot"
DAMAGED_NAME = "tree.journal.damaged"
_OUT_OF_SPACE = (ENOSPC, EDQUOT)
_JOURNAL_HEADER = b"KBTJ\x00\x00\x00\x01"
_SNAPSHOT_MAGIC = b"KBTS\x00\x00\x00\x01"
_FRAME = Struct(">II")
_TRANSACTION = Struct(">qqq")
_OP = Struct(">BH")
_SIZE = Struct(">i")
_CRC = Struct(">I")
_SNAPSHOT = Struct(">Iqi")
_NODE = Struct(">HIqqqqiiqi")
_log = logging.getLogger(__name__)

_CREATE, _CREATE_EPHEMERAL, _SET, _DELETE = 1, 2, 3, 4
_MAX_FRAME_BYTES = 64 * 1024 * 1024


class AppendFile(Protocol):
    """A file open for appending."""

    def write(self, data: bytes) -> None:
        """Append all of `data` in one call to the system."""
        ...

    def fsync(self) -> None:
        """Return when all written bytes are on the device."""
        ...

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to this size; later writes append there."""
        ...

    def close(self) -> None: ...


class TreeFiles(Protocol):
    """The directory of an embedded tree. Names are plain file names; errors are OSError."""

    def read(self, name: str) -> bytes | None:
        """The whole file, or None if there is none."""
        ...

    def open_append(self, name: str) -> AppendFile:
        """Open for appending, created when absent."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename, replacing a file of that name."""
        ...

    def unlink(self, name: str) -> None:
        """Remove a file; nothing happens when it is absent."""
        ...

    def fsync_directory(self) -> None:
        """Return when creations and renames are on the device."""
        ...


class CorruptTreeError(Exception):
    """A snapshot or journal that this code cannot have written.

    The message names the file and the place.
    """


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class JournalEntry:
    """One transaction as kept."""

    zxid: int
    time_ms: int
    session_id: int
    ops: Sequence[Op]


class TreeJournal:
    """The files of one tree. Owned by the event loop."""

    def __init__(self, files: TreeFiles, *, compact_bytes: int = 4 << 20) -> None:
        self._files = files
        self._compact_bytes = compact_bytes
        self._compact_at_bytes = compact_bytes  # later after a compaction that failed
        self._file: AppendFile | None = None
        self._size_bytes = 0
        self._is_torn = False  # part of a frame is at the end and could not be cut
        self._is_unsynced = False  # the last frames wait for `flush`
        self.is_doubtful = False  # a sync failed: `compact` before the next `append`

    @property
    def size_bytes(self) -> int:
        """Bytes in the journal, header included."""
        return self._size_bytes

    @property
    def wants_compaction(self) -> bool:
        """True when the journal has grown past its limit."""
        return self._size_bytes > self._compact_at_bytes

    def load(self) -> tuple[DataTree, int]:
        """Read snapshot and journal, cut a torn tail, open for appending.

        Returns the tree and its last zxid. Raises TreeStorageError and CorruptTreeError.
        """
        try:
            snapshot = self._files.read(SNAPSHOT_NAME)
            tree, zxid = decode_tree_snapshot(snapshot) if snapshot is not None else (DataTree(), 0)
            data = self._files.read(JOURNAL_NAME)
            if data is None and snapshot is not None:
                raise CorruptTreeError(
                    f"{JOURNAL_NAME} is missing beside {SNAPSHOT_NAME}, with what was changed "
                    "since: put it back from a copy (an empty file gives these changes up)"
                )
            data = data or b""
            zxid, end = _replay(tree, zxid, data, has_snapshot=snapshot is not None)
            if _has_whole_frame(data, end + 1):
                self._keep_damaged(data, end)
            self._open(end if data else 0, len(data))
        except OSError as error:
            raise _refused(error) from error
        return tree, zxid

    def append(self, entry: JournalEntry, *, lazy: bool = False) -> None:
        """Write one transaction; `lazy` leaves the sync to a later call.

        Raises TreeStorageError if it cannot be kept; the file is then as before.
        """
        assert self._file is not None
        assert not self.is_doubtful
        frame = encode_entry(entry)
        if self._is_torn:
            self._cut_back()
        try:
            self._file.write(frame)
            if lazy:
                self._is_unsynced = True
            else:
                self._sync(self._file)
        except OSError as error:
            self._is_torn = True
            self._cut_back()
            raise _refused(error) from error
        self._size_bytes += len(frame)

    def flush(self) -> None:
        """Return when all transactions are on the device. Raises TreeStorageError."""
        assert self._file is not None
        if not self._is_unsynced:
            return
        try:
            self._sync(self._file)
        except OSError as error:
            raise _refused(error) from error

    def compact(self, tree: DataTree, zxid: int) -> None:
        """Write a snapshot of `tree` at `zxid` and empty the journal.

        Raises TreeStorageError if that fails; the journal then goes on as it is.
        """
        assert self._file is not None
        self._compact_at_bytes = max(self._compact_bytes, 2 * self._size_bytes)
        try:
            self._write_snapshot(encode_tree_snapshot(tree, zxid))
            self._file.truncate(len(_JOURNAL_HEADER))
        except OSError as error:
            raise _refused(error) from error
        self._size_bytes = len(_JOURNAL_HEADER)
        self._compact_at_bytes = self._compact_bytes
        self._is_torn = self._is_unsynced = self.is_doubtful = False

    def close(self) -> None:
        """Put everything on the device and close."""
        if self._file is None:
            return
        try:
            self._file.fsync()
            self._file.close()
        except OSError as error:
            raise _refused(error) from error
        finally:
            self._file = None

    def _open(self, end: int, found: int) -> None:
        self._file = self._files.open_append(JOURNAL_NAME)
        if end < found or (found and not end):
            self._file.truncate(end)
        if end == 0:
            self._file.write(_JOURNAL_HEADER)
            # A journal without its header, or without its name, would be lost whole.
            self._file.fsync()
            self._files.fsync_directory()
            end = len(_JOURNAL_HEADER)
        self._size_bytes = end

    def _keep_damaged(self, data: bytes, position: int) -> None:
        """Save a journal whose transactions after `position` can no longer be applied."""
        _log.error(
            "%s is damaged at byte %d, and whole transactions follow: what they changed is lost, "
            "and logs of topics that are unknown now are left alone. The damaged file is kept as "
            "%s",
            JOURNAL_NAME,
            position,
            DAMAGED_NAME,
        )
        self._files.unlink(DAMAGED_NAME)
        copy = self._files.open_append(DAMAGED_NAME)
        try:
            copy.write(data)
            copy.fsync()
        finally:
            copy.close()

    def _sync(self, file: AppendFile) -> None:
        try:
            file.fsync()
        except OSError:
            self.is_doubtful = self._is_unsynced
            raise
        self._is_unsynced = False

    def _cut_back(self) -> None:
        # Part of the frame may have reached the file; frames after it would be lost at the next
        # start.
        assert self._file is not None
        try:
            self._file.truncate(self._size_bytes)
        except OSError as error:
            raise _refused(error) from error
        self._is_torn = False

    def _write_snapshot(self, data: bytes) -> None:
        temporary = SNAPSHOT_NAME + ".tmp"
        self._files.unlink(temporary)
        file = self._files.open_append(temporary)
        try:
            file.write(data)
            file.fsync()
        except OSError:
            with suppress(OSError):  # half of it would take the room that the journal still has
                self._files.unlink(temporary)
            raise
        finally:
            file.close()
        self._files.rename(temporary, SNAPSHOT_NAME)
        self._files.fsync_directory()


def _refused(error: OSError) -> TreeStorageError:
    refusal = TreeStorageError(f"the metadata cannot be kept: {error.strerror or error}")
    if error.errno in _OUT_OF_SPACE:
        refusal.trouble = Trouble.DISK_FULL
    return refusal


def encode_entry(entry: JournalEntry) -> bytes:
    """One transaction as a whole frame."""
    parts = [_TRANSACTION.pack(entry.zxid, entry.time_ms, entry.session_id)]
    for op in entry.ops:
        path = op.path.encode()
        if isinstance(op, DeleteOp):
            parts += (_OP.pack(_DELETE, len(path)), path)
        elif isinstance(op, SetOp):
            parts += (_OP.pack(_SET, len(path)), path, _pack_data(op.data))
        else:
            assert isinstance(op, CreateOp)
            assert not op.sequential
            kind = _CREATE_EPHEMERAL if op.ephemeral else _CREATE
            parts += (_OP.pack(kind, len(path)), path, _pack_data(op.data))
    payload = b"".join(parts)
    return _FRAME.pack(len(payload), crc32(payload)) + payload


def decode_entries(data: bytes) -> Iterator[tuple[JournalEntry, int]]:
    """Whole transactions of a journal, each with the position after it.

    Stops at the first torn or broken frame.
    """
    if not data.startswith(_JOURNAL_HEADER):
        if _JOURNAL_HEADER.startswith(data):
            return  # killed while the header was written
        if not any(data):
            return  # power was lost before the header was on the device: nothing was kept yet
        raise CorruptTreeError(f"{JOURNAL_NAME}: unknown header {data[:8]!r}")
    position = len(_JOURNAL_HEADER)
    while position + _FRAME.size <= len(data):
        size, crc = _FRAME.unpack_from(data, position)
        start = position + _FRAME.size
        if not _TRANSACTION.size <= size <= _MAX_FRAME_BYTES or start + size > len(data):
            return
        payload = data[start : start + size]
        if crc32(payload) != crc:
            return
        position = start + size
        yield _decode_payload(payload), position


def _has_whole_frame(data: bytes, start: int) -> bool:
    """Whether a whole transaction begins anywhere from `start` on."""
    for position in range(start, len(data) - _FRAME.size - _TRANSACTION.size + 1):
        size, crc = _FRAME.unpack_from(data, position)
        end = position + _FRAME.size + size
        is_possible = _TRANSACTION.size <= size and end <= len(data)
        if is_possible and crc32(data[position + _FRAME.size : end]) == crc:
            return True
    return False


def encode_tree_snapshot(tree: DataTree, zxid: int) -> bytes:
    """The whole tree as one file."""
    parts: list[bytes] = []
    count = 0
    stack: list[tuple[str, Znode]] = [("", tree.root)]
    while stack:
        name, node = stack.pop()
        count += 1
        name_bytes = name.encode()
        children = node.children
        data = node.data
        parts.append(
            _NODE.pack(
                len(name_bytes),
                len(children) if children else 0,
                node.czxid,
                node.mzxid,
                node.ctime,
                node.mtime,
                node.version,
                node.cversion,
                node.owner,
                len(data) if data is not None else -1,
            )
        )
        parts.append(name_bytes)
        if data:
            parts.append(data)
        if children:
            stack.extend(reversed(children.items()))
    body = b"".join(parts)
    head = _SNAPSHOT.pack(0, zxid, count)[4:]
    return b"".join((_SNAPSHOT_MAGIC, _CRC.pack(crc32(body, crc32(head))), head, body))


def decode_tree_snapshot(data: bytes) -> tuple[DataTree, int]:
    """The tree of a snapshot file and its zxid. Raises CorruptTreeError."""
    start = len(_SNAPSHOT_MAGIC)
    if not data.startswith(_SNAPSHOT_MAGIC) or len(data) < start + _SNAPSHOT.size:
        raise CorruptTreeError(f"{SNAPSHOT_NAME}: not a snapshot")
    crc, zxid, count = _SNAPSHOT.unpack_from(data, start)
    if crc32(memoryview(data)[start + 4 :]) != crc:
        raise CorruptTreeError(f"{SNAPSHOT_NAME}: checksum does not match")
    tree = DataTree()
    _decode_nodes(tree, data, start + _SNAPSHOT.size, count)
    return tree, zxid


def _decode_nodes(tree: DataTree, data: bytes, position: int, count: int) -> None:
    unpack, node_size = _NODE.unpack_from, _NODE.size
    # Parents whose children are still to come: (children dict, path prefix, children left).
    open_parents: list[tuple[dict[str, Znode], str, int]] = []
    for _ in range(count):
        name_size, child_count, czxid, mzxid, ctime, mtime, version, cversion, owner, size = unpack(
            data, position
        )
        position += node_size
        name = intern(data[position : position + name_size].decode())
        position += name_size
        value = None
        if size >= 0:
            value = data[position : position + size]
            position += size
        node = Znode(value, czxid, ctime, owner)
        if mzxid != czxid:
            node.mzxid, node.mtime = mzxid, mtime
        node.version, node.cversion = version, cversion
        prefix = ""
        if open_parents:
            children, prefix, left = open_parents.pop()
            children[name] = node
            if left > 1:
                open_parents.append((children, prefix, left - 1))
            prefix = f"{prefix}/{name}" if child_count or owner else prefix
        else:
            tree.root = node
        if child_count:
            node.children = {}
            open_parents.append((node.children, prefix, child_count))
        if owner:
            tree.ephemerals.setdefault(owner, {})[prefix] = None


def _replay(tree: DataTree, zxid: int, data: bytes, *, has_snapshot: bool) -> tuple[int, int]:
    """Apply the transactions that the snapshot lacks; returns the last zxid and the end of the
    whole frames.

    Each transaction has the zxid after the one before: a journal that begins later belongs to
    another snapshot, and would make a tree that never was.
    """
    end = len(_JOURNAL_HEADER) if data.startswith(_JOURNAL_HEADER) else 0
    for entry, position in decode_entries(data):
        end = position
        if entry.zxid <= zxid:
            continue
        if entry.zxid != zxid + 1:
            whose = f"ends at {zxid}" if has_snapshot else "is missing"
            raise CorruptTreeError(
                f"{JOURNAL_NAME} goes on at zxid {entry.zxid}, and {SNAPSHOT_NAME} {whose}: put "
                "the snapshot back that belongs to it"
            )
        tree.apply(entry.ops, entry.zxid, entry.time_ms, entry.session_id)
        zxid = entry.zxid
    return zxid, end


def _decode_payload(payload: bytes) -> JournalEntry:
    zxid, time_ms, session_id = _TRANSACTION.unpack_from(payload)
    position = _TRANSACTION.size
    ops: list[Op] = []
    while position < len(payload):
        kind, path_size = _OP.unpack_from(payload, position)
        position += _OP.size
        path = payload[position : position + path_size].decode()
        position += path_size
        if kind == _DELETE:
            ops.append(DeleteOp(path))
            continue
        (size,) = _SIZE.unpack_from(payload, position)
        position += _SIZE.size
        data = payload[position : position + size] if size >= 0 else None
        position += max(size, 0)
        ops.append(
            SetOp(path, data) if kind == _SET else CreateOp(path, data, kind == _CREATE_EPHEMERAL)
        )
    return JournalEntry(zxid, time_ms, session_id, ops)


def _pack_data(data: bytes | None) -> bytes:
    return _SIZE.pack(-1) if data is None else _SIZE.pack(len(data)) + data
