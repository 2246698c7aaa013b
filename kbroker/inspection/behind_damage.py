"""Where intact batches go on behind bytes of a segment that are none: what a broker serves of a
segment that no start mends. Reads only.
"""

from __future__ import annotations

from typing import NamedTuple

from kbroker.log.disk.file_system import FileSystem
from kbroker.log.disk.format import MAX_RELATIVE_OFFSET, OFFSET_INDEX_ENTRY
from kbroker.log.segments.batch_audit import BatchAudit, ReadableFile


class Damage(NamedTuple):
    """Where it begins, in bytes of the file, and the offset that was to come there."""

    position: int
    expected_offset: int


def sound_after(
    file_system: FileSystem, path: str, base_offset: int, damage: Damage, index: bytes
) -> int | None:
    """The position of the next intact batch; None if there is none. `index` is the content of
    the offset index, which may be wrong. Raises StorageError.
    """
    whole = len(index) - len(index) % OFFSET_INDEX_ENTRY.size
    known = [(base_offset + o, at) for o, at in OFFSET_INDEX_ENTRY.iter_unpack(index[:whole])]
    file = file_system.open(path, read_only=True)
    try:
        limit = file.size()
        audit = BatchAudit(ReadableFile(file), limit, base_offset + MAX_RELATIVE_OFFSET + 1)
        position = audit.next_sound(damage.position, damage.expected_offset, known)
    finally:
        file.close()
    return position if position < limit else None
