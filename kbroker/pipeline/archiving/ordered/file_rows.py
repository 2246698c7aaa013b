"""The rows of one file of an archive, a piece at a time.

Law: a file that is not as its manifest says yields nothing. Size, checksum and number of rows are
compared before the first row, the order and the bounds of the offsets with each piece.

Pages are read as they are needed, so a file costs about three pieces of memory, however large its
row groups are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kbroker.log.disk.file_system import StorageError
from kbroker.pipeline.archiving.manifests.file_check import check_file
from kbroker.pipeline.archiving.manifests.manifest import FileEntry
from kbroker.pipeline.archiving.reader import ArchiveSelection
from kbroker.pipeline.envelope import ARCHIVE_COLUMNS, EXACT_COLUMNS
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.logdir.columns import arrow_schema, record_columns
from kbroker.pipeline.logdir.exact_columns import unix_ms

# All columns of a record except its partition's, which are the same for all rows.
ROW_COLUMNS: Final = tuple(name for name in ARCHIVE_COLUMNS if name not in ("topic", "partition"))
ROW_SCHEMA: Final = arrow_schema(record_columns(ROW_COLUMNS))

PIECE_BYTES: Final = 1024 * 1024  # of rows that are in memory together, about
_PIECE_ROWS: Final = 8192
_PAGE_BUFFER_BYTES: Final = 64 * 1024  # of a column; without one a whole row group is read at once


def file_rows(archive: str, entry: FileEntry, wanted: ArchiveSelection) -> Iterator[pa.RecordBatch]:
    """Yield the wanted rows of a file, with the columns of ROW_SCHEMA; no piece is empty.

    Raises PipelineError with one sentence that names the file.
    """
    name = f"{archive}/{entry.path}"
    try:
        finding = check_file(archive, entry)
        if finding is not None:
            raise _refusal(name, finding.what)
        # The check has just read all of it: the rows now come from the page cache.
        with pq.ParquetFile(name, buffer_size=_PAGE_BUFFER_BYTES, pre_buffer=False) as file:
            if file.metadata.num_rows != entry.rows:
                raise _refusal(name, f"has {file.metadata.num_rows} rows, not {entry.rows}")
            if not pa.types.is_integer(file.schema_arrow.field("offset").type):
                raise _refusal(name, "has offsets that are no numbers")
            last_offset = -1
            for piece in _pieces(file, wanted):
                last_offset = checked_end(name, entry, last_offset, offsets_of(piece))
                _check_headers(name, piece)
                chosen = _chosen(piece, wanted)
                if chosen.num_rows:
                    yield chosen
    except StorageError as error:
        raise PipelineError(f"the archive cannot be read: {error}") from error
    except (pa.ArrowException, KeyError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.strerror:  # the system's, and not pyarrow's
            raise PipelineError(f"{name} cannot be read: {error.strerror}") from error
        reason = " ".join(str(error).split())
        raise _refusal(name, f"is not a Parquet file with the rows of records: {reason}") from error


def offsets_of(rows: pa.RecordBatch) -> np.ndarray[Any, Any]:
    """Return the offsets of some rows, one per row."""
    offsets: np.ndarray[Any, Any] = rows.column("offset").to_numpy(zero_copy_only=False)
    return offsets


def _pieces(file: pq.ParquetFile, wanted: ArchiveSelection) -> Iterator[pa.RecordBatch]:
    """Yield all rows of the row groups that may hold a wanted offset."""
    metadata = file.metadata
    names = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    offset_column = names.index("offset")
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if not _may_want(group.column(offset_column).statistics, wanted):
            continue
        size = PIECE_BYTES * group.num_rows // max(group.total_byte_size, 1)
        rows = max(1, min(size, _PIECE_ROWS))
        for piece in file.iter_batches(
            rows, row_groups=[number], columns=list(ROW_COLUMNS), use_threads=False
        ):
            columns = [_typed(piece, field) for field in ROW_SCHEMA]
            yield pa.RecordBatch.from_arrays(columns, schema=ROW_SCHEMA)


def _typed(rows: pa.RecordBatch, wanted: pa.Field) -> pa.Array:
    """Return a column with its wanted type: Spark may have said that a field is never null, which
    is another type; files of older versions have no EXACT_COLUMNS.
    """
    if wanted.name in EXACT_COLUMNS and wanted.name not in rows.schema.names:
        return pa.nulls(rows.num_rows, wanted.type)
    column = rows.column(wanted.name)
    return column if column.type == wanted.type else column.cast(wanted.type)


def _may_want(statistics: Any, wanted: ArchiveSelection) -> bool:
    if statistics is None or not statistics.has_min_max:
        return True
    if wanted.start_offset is not None and statistics.max < wanted.start_offset:
        return False
    return wanted.end_offset is None or statistics.min < wanted.end_offset


def checked_end(
    name: str, entry: FileEntry, last_offset: int, offsets: np.ndarray[Any, Any]
) -> int:
    """Return the last of these offsets, which belong to the file `name` and follow `last_offset`.

    Raises PipelineError if they do not rise, or are not within what its manifest says.
    """
    low, high = int(offsets.min()), int(offsets.max())
    if low < entry.first_offset or high > entry.last_offset:
        outside = low if low < entry.first_offset else high
        raise _refusal(
            name,
            f"holds offset {outside}, and its manifest says {entry.first_offset} to "
            f"{entry.last_offset}",
        )
    before = np.concatenate((np.array([last_offset], np.int64), offsets[:-1]))
    steps = offsets - before
    if steps.min() < 1:
        at = int(np.argmin(steps))
        raise _refusal(name, f"holds offset {offsets[at]} after {before[at]}: rows have to rise")
    return int(offsets[-1])


def _check_headers(name: str, rows: pa.RecordBatch) -> None:
    keys, _ = rows.column("headers").flatten().flatten()
    if keys.null_count:
        raise _refusal(name, "holds a header without a key")


def _chosen(rows: pa.RecordBatch, wanted: ArchiveSelection) -> pa.RecordBatch:
    start, end = 0, rows.num_rows
    if wanted.start_offset is not None:
        start = int(np.searchsorted(offsets_of(rows), wanted.start_offset))
    if wanted.end_offset is not None:
        end = int(np.searchsorted(offsets_of(rows), wanted.end_offset))
    chosen = rows.slice(start, max(end - start, 0))
    if wanted.start_ms is not None:
        chosen = chosen.filter(pa.array(unix_ms(chosen) >= wanted.start_ms))
    if wanted.end_ms is not None:
        chosen = chosen.filter(pa.array(unix_ms(chosen) < wanted.end_ms))
    return chosen


def _refusal(name: str, what: str) -> PipelineError:
    return PipelineError(f"{name} {what}; `kbroker pipeline audit` shows more")
