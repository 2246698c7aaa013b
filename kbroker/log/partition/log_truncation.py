"""Cuts of a log: at an offset, or of everything.

Law: after each cut segments, offsets, leader epochs and producer state agree. What the disk refuses
of a cut is completed before anything else is written: a half-done one would mix old records with
new ones.
"""

from __future__ import annotations

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.disk.checkpoint import LogCut
from kbroker.log.partition.log_parts import LogParts
from kbroker.log.partition.segment_roll import start_segment_if_there_is_room


def truncate_to(parts: LogParts, offset: int, now_ms: int = 0) -> bool:
    """Cut the log so that it ends at `offset`; False if it already ends there or earlier.

    It goes on in another file: a power loss may give the cut one back what it had there, amid
    what comes, and nobody could tell the two apart. KafkaError(KAFKA_STORAGE_ERROR).
    """
    offsets, files = parts.offsets, parts.files
    if offsets.unfinished_cut is not None:
        offset = min(offset, offsets.unfinished_cut)
    elif offset >= offsets.log_end_offset:
        # A leader that appended nothing has left an epoch at the log end: once another one leads,
        # it would look like records that the new leader lacks (KAFKA-10706).
        with parts.directory.refusals():
            parts.epochs.truncate_from_end(offsets.log_end_offset)
        return False
    is_empty = offsets.log_start_offset == offsets.log_end_offset == offset  # unfinished start
    if is_empty or files.segments[0].base_offset > offset or files.is_empty_at(offset):
        truncate_fully_and_start_at(parts, offset, now_ms)
    else:
        with parts.directory.refusals():
            cut_at(parts, offset, now_ms)
    if files.segments.active.size_bytes:
        start_segment_if_there_is_room(parts, now_ms)
    return True


def cut_at(parts: LogParts, offset: int, now_ms: int) -> None:
    """Drop the batch that holds `offset`, if there is one, and all after it. StorageError: the
    log ends there all the same, and the next append or truncation begins with the files.

    No first segment may come after `offset`.
    """
    offsets = parts.offsets
    offsets.begin_cut(offset)
    _ends_at(parts, offsets.log_end_offset)
    cut = parts.files.planned_cut(offset, offsets.log_start_offset)
    parts.directory.before_cut(cut)
    offsets.end_at(parts.files.truncate_to(offset, now_ms))
    _ends_at(parts, offsets.log_end_offset)
    # Appends to come leave no gap, or say so before.
    parts.directory.gapless_from(offsets.log_end_offset)
    parts.producers.rewind(offsets, now_ms)
    offsets.cut_is_done()


def truncate_fully_and_start_at(parts: LogParts, offset: int, now_ms: int = 0) -> None:
    """Drop everything; the log is empty and starts and ends at `offset`. If the disk refuses,
    its files are before anything else is written. KafkaError(KAFKA_STORAGE_ERROR).
    """
    with parts.directory.refusals():
        parts.directory.before_cut(LogCut(offset, parts.offsets.log_start_offset, offset))
        _empty_at(parts, offset, now_ms)


def finish_cut(parts: LogParts) -> None:
    """End a truncation that came to no end. Always raises KafkaError(KAFKA_STORAGE_ERROR): what
    was looked up before is of no use any more.
    """
    assert parts.offsets.unfinished_cut is not None
    truncate_to(parts, parts.offsets.unfinished_cut)
    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "The log was cut just now: try again")


def _ends_at(parts: LogParts, end_offset: int) -> None:
    parts.producers.cut_begins_at(end_offset)
    parts.epochs.truncate_from_end(end_offset)


def _empty_at(parts: LogParts, offset: int, now_ms: int) -> None:
    parts.offsets.begin_anew_at(offset)
    parts.epochs.clear()
    parts.producers.begin_anew_at(offset)
    parts.files.truncate_fully(offset, now_ms)
    parts.directory.gapless_from(offset)
    parts.files.snapshots.delete_outside(offset, offset)
    # Before there are records below the start that it had.
    parts.directory.before_cut(LogCut(offset, offset, offset))
    parts.files.activate()
    parts.offsets.cut_is_done()
