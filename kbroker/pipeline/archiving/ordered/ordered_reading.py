"""Reads all rows of one partition of an archive by rising offset, in this process and without
Spark.

Files are cut by the hour of the records' time, so late records let the offsets of files interleave.
Files that overlap are merged, the others are read one after the other. A lane is a row of files
that do not overlap: as many lanes as files overlap at the most, and one file of each is open.

If there are more than LANES_AT_ONCE lanes, that many are merged into a temporary file without a
name, which takes their place: memory and descriptors stay bounded, and the directory for temporary
files needs room for the files that overlap so much, once or a few times.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from typing import IO, Final

import pyarrow as pa

from kbroker.pipeline.archiving.manifests.manifest import FileEntry
from kbroker.pipeline.archiving.ordered.file_rows import PIECE_BYTES, ROW_SCHEMA, file_rows
from kbroker.pipeline.archiving.ordered.row_merge import SourcedRows, merged_rows
from kbroker.pipeline.archiving.reader import ArchiveSelection
from kbroker.pipeline.errors import PipelineError

LANES_AT_ONCE: Final = 48  # as many as one task of an archive job has files open

_ALL: Final = ArchiveSelection()


def ordered_rows(
    archive: str, entries: Iterable[FileEntry], wanted: ArchiveSelection = _ALL
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted rows of one partition, whose data files are `entries`, with the columns of
    `file_rows.ROW_SCHEMA`, in batches of about 1 MB; if files overlap, of up to 1 MB of each.

    Raises PipelineError with one sentence that names the file: one that is not as its manifest
    says, an offset that two of them have, a disk that refuses.
    """
    chosen = [entry for entry in entries if wanted.wants(entry)]
    assert len({entry.topic_partition for entry in chosen}) <= 1, "of one partition"
    yield from _gathered(_in_order(archive, chosen, wanted))


def _in_order(
    archive: str, entries: Iterable[FileEntry], wanted: ArchiveSelection
) -> Iterator[pa.RecordBatch]:
    for overlapping in overlapping_runs(entries):
        sources = [_lane_rows(archive, lane, wanted) for lane in lanes(overlapping)]
        while len(sources) > LANES_AT_ONCE:
            sources = [
                _through_disk(sources[start : start + LANES_AT_ONCE], overlapping[0].path)
                for start in range(0, len(sources), LANES_AT_ONCE)
            ]
        yield from merged_rows(sources)


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows without many small batches, such as small files and merging make."""
    kept: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in batches:
        if kept and size_bytes + batch.nbytes > PIECE_BYTES:
            yield joined_rows(kept)
            kept, size_bytes = [], 0
        kept.append(batch)
        size_bytes += batch.nbytes
    if kept:
        yield joined_rows(kept)


def joined_rows(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return all rows of one or more batches."""
    if len(batches) == 1:
        return batches[0]
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def overlapping_runs(entries: Iterable[FileEntry]) -> Iterator[list[FileEntry]]:
    """Yield files by first offset, cut wherever all before end before all behind begin."""
    run: list[FileEntry] = []
    last_offset = -1
    for entry in sorted(entries, key=lambda entry: entry.first_offset):
        if run and entry.first_offset > last_offset:
            yield run
            run = []
        run.append(entry)
        last_offset = max(last_offset, entry.last_offset)
    if run:
        yield run


def lanes(entries: Iterable[FileEntry]) -> list[list[FileEntry]]:
    """Return files, given by first offset, in as few lanes as possible, without overlap in any."""
    found: list[list[FileEntry]] = []
    ends: list[tuple[int, int]] = []  # a heap: last offset, lane
    for entry in entries:
        if ends and ends[0][0] < entry.first_offset:
            _, number = heappop(ends)
            found[number].append(entry)
        else:
            number = len(found)
            found.append([entry])
        heappush(ends, (entry.last_offset, number))
    return found


def _lane_rows(
    archive: str, lane: Iterable[FileEntry], wanted: ArchiveSelection
) -> Iterator[SourcedRows]:
    for entry in lane:
        for rows in file_rows(archive, entry, wanted):
            yield f"{archive}/{entry.path}", rows


def _through_disk(
    sources: Sequence[Iterator[SourcedRows]], first_path: str
) -> Iterator[SourcedRows]:
    """Yield the merged rows of some sources, kept on the disk meanwhile."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - read to its end by who merges it
    try:
        _write_rows(file, merged_rows(sources))
    except BaseException:
        with suppress(OSError):  # what it holds back has no room either
            file.close()
        raise
    file.seek(0)
    return _rows_on_disk(file, f"{first_path} or a file that overlaps with it")


def _write_rows(file: IO[bytes], batches: Iterator[pa.RecordBatch]) -> None:
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    try:
        with pa.ipc.new_stream(file, ROW_SCHEMA, options=options) as stream:
            for rows in batches:
                stream.write_batch(rows)
    except OSError as error:
        raise PipelineError(
            f"{tempfile.gettempdir()} cannot hold the rows of files that overlap: "
            f"{error.strerror or error}; set TMPDIR to a directory with more room"
        ) from error


def _rows_on_disk(file: IO[bytes], name: str) -> Iterator[SourcedRows]:
    with file, pa.ipc.open_stream(file) as stream:
        for rows in stream:
            yield name, rows
