"""A disk in memory that knows what a power loss could take: it makes crash images.

What is safe: the content and size of a file when it was synced, and the names in a directory when
that was synced. Nothing else is; syncing a new file does not make its name safe. Everything that is
not safe is noted in order as a pending change, and an image keeps some of it:

    lost        nothing that was pending
    killed      all of it (the process was killed, the machine goes on)
    ordered     all up to a moment; a write at that moment is torn (a journalling file system)
    random      names each by itself; each 512-byte sector and the size of a file at one of its
                ages; a sector that was never written is zero or holds what its block held before
    sizes only  all names and sizes, but sectors as above (metadata before data)
    data only   contents, but no new names

A rename is old or new, never half, between directories too. A failed sync drops the pending changes of its file: the kernel
marks the pages clean, and no later sync writes them (as ext4 does).
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Self

from kbroker.log.disk.file_system import Bytes, StorageError
from tests.fakes.disks.memory_file_system import MTIME_MS, MemoryFileSystem, Node

SECTOR_BYTES = 512
MODES = ("lost", "killed", "ordered", "random", "random", "sizes only", "data only")


@dataclass(frozen=True, slots=True)
class ContentChange:
    """A write, or with `data` None a cut or extension to `position`."""

    sequence: int
    position: int
    data: bytes | None


@dataclass(frozen=True, slots=True)
class NameChange:
    """`new` names the node from now on, and `old` does not. One of them is absent for a creation
    or removal, and for one half of a move between directories, whose other half is in `twin`."""

    sequence: int
    node: RecordedNode
    old: str | None
    new: str | None
    twin: RecordedNode | None = None


class RecordedNode(Node):
    """A node with what of it is safe."""

    __slots__ = ("pending", "pending_names", "safe_data", "safe_entries", "safe_size", "skips")

    def __init__(self, *, is_directory: bool, modified_ms: int) -> None:
        super().__init__(is_directory=is_directory, modified_ms=modified_ms)
        self.safe_data = b""
        self.safe_size = 0
        self.safe_entries: dict[str, RecordedNode] = {}
        self.pending: list[ContentChange] = []
        self.pending_names: list[NameChange] = []
        self.skips = False  # a failed sync: the live content holds what will never be safe


@dataclass(slots=True)
class CrashPlan:
    """How one image is made: everything in it follows from `random`."""

    random: Random
    mode: str
    keep: float = 1.0
    until: int = 0
    salt: int = 0
    made: dict[int, RecordedNode] = field(default_factory=dict)


class RecordingFileSystem(MemoryFileSystem):
    """Fulfils `FileSystem`. `before_change(operation, path)` is called ahead of every change, so
    that an image can be taken between any two of them, and it may raise StorageError."""

    def __init__(
        self, *, capacity_bytes: int = 1 << 40, now_ms: Callable[[], int] = lambda: MTIME_MS
    ) -> None:
        self.sequence = 0
        self.before_change: Callable[[str, str], None] | None = None
        self.made_as = ""  # the mode of an image
        super().__init__(capacity_bytes=capacity_bytes, now_ms=now_ms)

    def new_node(self, *, is_directory: bool) -> RecordedNode:
        return RecordedNode(is_directory=is_directory, modified_ms=self.now_ms())

    def image(self, random: Random, mode: str | None = None) -> Self:
        """Return what a power loss at this moment may leave."""
        plan = CrashPlan(random, mode or random.choice(MODES))
        plan.keep = random.choice((0.1, 0.5, 0.9))
        plan.until = random.randrange(self._oldest_pending(), self.sequence + 2)
        plan.salt = random.getrandbits(31) | 1
        image = type(self)(capacity_bytes=self.capacity_bytes, now_ms=self.now_ms)
        image.made_as = plan.mode
        image.root = _image_of(self.root, plan)
        image.used_bytes = sum(len(node.data) for _, node in image.files())
        return image

    def pending_changes(self) -> int:
        """How many changes are not safe."""
        return len(list(_pending_sequences(self.root)))

    def _oldest_pending(self) -> int:
        return min(_pending_sequences(self.root), default=self.sequence)

    def _next(self, operation: str, path: str) -> int:
        self.sequence += 1
        if self.before_change is not None:
            self.before_change(operation, path)
        return self.sequence

    def _change_write(self, node: Node, data: Bytes, position: int, path: str) -> None:
        assert isinstance(node, RecordedNode)
        sequence = self._next("write", path)
        try:
            super()._change_write(node, data, position, path)
        finally:  # of a write that finds no room the first part is there
            written = bytes(node.data[position : position + len(data)])
            node.pending.append(ContentChange(sequence, position, written))

    def _change_truncate(self, node: Node, size: int, path: str) -> None:
        assert isinstance(node, RecordedNode)
        sequence = self._next("truncate", path)
        if size == node.size:
            return
        super()._change_truncate(node, size, path)
        node.pending.append(ContentChange(sequence, size, None))

    def _change_sync(self, node: Node, path: str) -> None:
        assert isinstance(node, RecordedNode)
        try:
            self._next("fsync", path)
        except StorageError:
            node.skips = node.skips or bool(node.pending)
            node.pending.clear()
            raise
        if node.entries is not None:
            for change in node.pending_names:
                if change.twin is not None:
                    _settle(change.twin, change.sequence)
            node.safe_entries = dict(node.entries)  # type: ignore[arg-type]
            node.pending_names.clear()
        elif node.pending:
            if node.skips:
                node.safe_data, node.safe_size = _after(node, node.pending)
            else:
                node.safe_data, node.safe_size = bytes(node.data), node.size
            node.pending.clear()

    def _change_link(self, parent: Node, name: str, node: Node, path: str) -> None:
        sequence = self._next("create", path)
        super()._change_link(parent, name, node, path)
        _rename(sequence, node, (None, None), (parent, name))

    def _change_unlink(self, parent: Node, name: str, path: str) -> None:
        assert parent.entries is not None
        sequence = self._next("remove", path)
        node = parent.entries[name]
        super()._change_unlink(parent, name, path)
        _rename(sequence, node, (parent, name), (None, None))

    def _change_rename(
        self, old_parent: Node, old_name: str, new_parent: Node, new_name: str, path: str
    ) -> None:
        assert old_parent.entries is not None
        sequence = self._next("rename", path)
        node = old_parent.entries[old_name]
        super()._change_rename(old_parent, old_name, new_parent, new_name, path)
        _rename(sequence, node, (old_parent, old_name), (new_parent, new_name))


class FailedSyncs:
    """A `before_change` that lets chosen syncs fail, by their number from 1 on."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = set(numbers)
        self.syncs = 0

    def __call__(self, operation: str, path: str) -> None:
        if operation == "fsync":
            self.syncs += 1
            if self.syncs in self.numbers:
                raise StorageError(path, "fsync", errno.EIO)


def _rename(
    sequence: int,
    node: Node,
    old: tuple[Node | None, str | None],
    new: tuple[Node | None, str | None],
) -> None:
    assert isinstance(node, RecordedNode)
    old_parent, old_name = old
    new_parent, new_name = new
    if old_parent is new_parent:
        assert isinstance(old_parent, RecordedNode)
        old_parent.pending_names.append(NameChange(sequence, node, old_name, new_name))
        return
    twins = old_parent, new_parent
    for parent, twin, names in zip(
        twins, reversed(twins), ((old_name, None), (None, new_name)), strict=True
    ):
        if parent is not None:
            assert isinstance(parent, RecordedNode)
            assert twin is None or isinstance(twin, RecordedNode)
            parent.pending_names.append(NameChange(sequence, node, *names, twin))


def _settle(parent: RecordedNode, sequence: int) -> None:
    """The other half of a move is safe: so is this one."""
    (half,) = [each for each in parent.pending_names if each.sequence == sequence]
    name = half.old or half.new
    assert name is not None
    parent.pending_names = [
        each
        for each in parent.pending_names
        if each.sequence > sequence or name not in (each.old, each.new)
    ]
    if half.new is not None:
        parent.safe_entries[name] = half.node
    else:
        parent.safe_entries.pop(name, None)


def _image_of(node: Node, plan: CrashPlan) -> RecordedNode:
    assert isinstance(node, RecordedNode)
    made = plan.made.get(id(node))
    if made is not None:
        return made
    image = RecordedNode(is_directory=node.entries is not None, modified_ms=node.modified_ms)
    plan.made[id(node)] = image
    if node.entries is None:
        data, size = _content_image(node, plan)
        image.data = image.safe_data = data
        image.size = image.safe_size = size
    else:
        names = _names_image(node, plan)
        image.safe_entries = {name: _image_of(child, plan) for name, child in names.items()}
        image.entries = dict(image.safe_entries)
    return image


def _names_image(node: RecordedNode, plan: CrashPlan) -> dict[str, RecordedNode]:
    names = dict(node.safe_entries)
    for change in node.pending_names:
        if _keeps_name(change, plan):
            if change.old is not None and names.get(change.old) is change.node:
                del names[change.old]
            if change.new is not None:
                names[change.new] = change.node
    return names


def _keeps_name(change: NameChange, plan: CrashPlan) -> bool:
    if plan.mode == "ordered":
        return change.sequence < plan.until
    if plan.mode == "random":
        # The two halves of a move between directories share their sequence, and so their fate.
        return (plan.salt * (change.sequence + 1) * 2_654_435_761 >> 11) % 1000 < plan.keep * 1000
    return plan.mode in ("killed", "sizes only")


def _content_image(node: RecordedNode, plan: CrashPlan) -> tuple[bytes, int]:
    pending = node.pending
    if plan.mode == "lost" or not pending:
        return node.safe_data, node.safe_size
    if plan.mode == "killed" and not node.skips:
        return bytes(node.data), node.size
    if plan.mode == "ordered":
        return _after(node, _torn(pending, plan))
    if plan.mode in ("killed", "data only") and plan.random.random() < 0.5:
        return _after(node, pending)
    return _mixed(node, plan)


def _torn(pending: list[ContentChange], plan: CrashPlan) -> list[ContentChange]:
    kept = [change for change in pending if change.sequence < plan.until]
    torn = next((c for c in pending if c.sequence == plan.until and c.data is not None), None)
    if torn is not None and torn.data is not None:
        size = plan.random.randrange(len(torn.data) + 1)
        if plan.random.random() < 0.5:
            size -= (torn.position + size) % SECTOR_BYTES  # at a sector
        if size > 0:
            kept.append(ContentChange(torn.sequence, torn.position, torn.data[:size]))
    return kept


def _after(node: RecordedNode, changes: list[ContentChange]) -> tuple[bytes, int]:
    """Content and size once these changes are on the disk."""
    data, size = bytearray(node.safe_data), node.safe_size
    for change in changes:
        if change.data is None:
            size = change.position
            del data[size:]
            continue
        if len(data) < change.position:
            data += bytes(change.position - len(data))
        data[change.position : change.position + len(change.data)] = change.data
        size = max(size, change.position + len(change.data))
    return bytes(data), size


def _mixed(node: RecordedNode, plan: CrashPlan) -> tuple[bytes, int]:
    """Each sector as old as it likes between the last sync and now, and the size too."""
    random = plan.random
    pending = node.pending
    middle = _after(node, pending[: random.randrange(len(pending) + 1)])
    newest = _after(node, pending)
    ages = [(node.safe_data, node.safe_size), middle, newest]
    size = newest[1] if plan.mode == "sizes only" else random.choice(ages)[1]
    content = bytearray(newest[0])
    largest = max(len(data) for data, _ in ages)
    content += bytes(largest - len(content))
    for start in range(0, largest, SECTOR_BYTES):
        if random.random() < plan.keep:
            continue
        end = min(start + SECTOR_BYTES, largest)
        older = random.choice(ages)[0][start:end]
        missing = end - start - len(older)
        fill = random.randbytes(missing) if random.random() < 0.1 else bytes(missing)
        content[start:end] = older + fill
    return bytes(content[:size]), size


def _pending_sequences(node: Node) -> list[int]:
    assert isinstance(node, RecordedNode)
    found = [change.sequence for change in node.pending]
    found += [change.sequence for change in node.pending_names]
    for child in (node.entries or {}).values():
        found += _pending_sequences(child)
    return found
