"""Pieces of a segment: whole batches, and no trust in what a length claims."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kbroker.pipeline.logdir.decode import segment_pieces
from kbroker.pipeline.logdir.decode.segment_pieces import Piece, pieces
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.record_batch import Record, build
from tests.fakes.disks.memory_file_system import MemoryFile, MemoryFileSystem
from tests.unit.pipeline.logdir.segment_rows import stored

NOW_MS = 1_790_000_000_000
BATCHES = [build([Record(at, NOW_MS, b"k", bytes(at * 100))], base_offset=at) for at in range(10)]
DATA = b"".join(BATCHES)


def found_batches(found: list[Piece]) -> list[bytes]:
    return [
        piece.buffer[start:end]
        for piece in found
        for start, end in zip(piece.bounds, piece.bounds[1:], strict=False)
    ]


@pytest.mark.parametrize("piece_bytes", [*range(1, 200, 13), 1000, 5000, 10_000])
def test_every_batch_is_in_one_piece(piece_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_pieces, "PIECE_BYTES", piece_bytes)

    assert found_batches(list(pieces(*stored(DATA)))) == BATCHES


@pytest.mark.parametrize("first", range(10))
def test_only_batches_that_begin_in_the_stretch_are_given(first: int) -> None:
    disk, task = stored(DATA)
    start = len(b"".join(BATCHES[:first]))
    task = replace(task, start_position=start, end_position=start + 1)

    assert found_batches(list(pieces(disk, task))) == [BATCHES[first]]


def test_small_messages_behind_the_stretch_are_not_given() -> None:
    message = build_legacy([Record(0, -1, None, b"")], 0)
    disk, task = stored(message * 3)

    found = list(pieces(disk, replace(task, end_position=len(message))))

    assert found_batches(found) == [message]
    assert found[0].is_old


def test_the_offset_of_the_next_batch_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_pieces, "PIECE_BYTES", len(BATCHES[0]) + 20)

    first, *_, last = pieces(*stored(DATA))

    assert first.follower_offset == 1
    assert last.follower_offset is None


def test_a_batch_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_pieces, "MAX_BATCH_BYTES", len(BATCHES[5]))
    monkeypatch.setattr(segment_pieces, "PIECE_BYTES", 100)

    found = list(pieces(*stored(DATA)))

    damage = found[-1].damage
    assert found_batches(found) == BATCHES[:6]
    assert damage is not None
    assert damage.position == len(b"".join(BATCHES[:6]))
    assert damage.end_position == len(b"".join(BATCHES[:7]))


class ShrinkingFile(MemoryFile):
    """Says that it is larger than it is, as a file does that is cut after its size was asked."""

    def size(self) -> int:
        return super().size() + 1000


@pytest.mark.parametrize("cut", [1, 50, 500, 940])
def test_a_file_that_is_cut_meanwhile_is_told(cut: int, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, task = stored(DATA[:-cut])

    def open_shrinking(path: str, *, read_only: bool) -> ShrinkingFile:
        inner = MemoryFileSystem.open(disk, path, read_only=read_only)
        inner.__class__ = ShrinkingFile
        return inner  # type: ignore[return-value]

    monkeypatch.setattr(disk, "open", open_shrinking)
    found = list(pieces(disk, replace(task, end_position=len(DATA))))

    assert found_batches(found) == BATCHES[:9]
    assert found[-1].damage is not None
    assert "shorter" in found[-1].damage.reason
