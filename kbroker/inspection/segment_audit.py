"""A segment file under the audit that tells sound batches from damage; for those who only read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from kbroker.log.disk.file_system import File, FileSystem
from kbroker.log.disk.format import MAX_RELATIVE_OFFSET, OFFSET_INDEX_ENTRY
from kbroker.log.segments.batch_audit import BatchAudit, ReadableFile


class DamagedPlace(NamedTuple):
    """Where damage begins, in bytes of the file, and the offset that was to come there."""

    position: int
    expected_offset: int


@contextmanager
def opened_audit(
    file_system: FileSystem, path: str, end_offset: int
) -> Iterator[tuple[BatchAudit, File]]:
    """Open a segment whose offsets are below `end_offset`: its audit and its file, until the block
    ends. Raises StorageError.
    """
    with closing(file_system.open(path, read_only=True)) as file:
        yield BatchAudit(ReadableFile(file), file.size(), end_offset), file


def sound_after(
    file_system: FileSystem, path: str, base_offset: int, damage: DamagedPlace, index: bytes
) -> int | None:
    """Find the next intact batch after damage, from where a broker serves a segment that no start
    mends. Returns its position, or None. `index` holds the offset index, which may be wrong. Raises
    StorageError.
    """
    whole = len(index) - len(index) % OFFSET_INDEX_ENTRY.size
    known = [(base_offset + o, at) for o, at in OFFSET_INDEX_ENTRY.iter_unpack(index[:whole])]
    end_offset = base_offset + MAX_RELATIVE_OFFSET + 1
    with opened_audit(file_system, path, end_offset) as (audit, file):
        position = audit.next_sound(damage.position, damage.expected_offset, known)
        return position if position < file.size() else None
