"""Merges several sources of rows, each by rising offset, into one.

One piece of each source is in memory. Everything up to the lowest of the last offsets in these
pieces is complete: it is sorted and given out, and the source that has come to the end of its piece
takes the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from kbroker.pipeline.archiving.ordered.file_rows import ROW_SCHEMA, offsets_of
from kbroker.pipeline.errors import PipelineError

SourcedRows = tuple[str, pa.RecordBatch]  # the file they come from, for a person, and the rows

_NONE = pa.RecordBatch.from_pylist([], ROW_SCHEMA)


def merged_rows(sources: Iterable[Iterator[SourcedRows]]) -> Iterator[pa.RecordBatch]:
    """Yield all rows of the sources by rising offset; PipelineError for one that two have."""
    heads = [_Head(source) for source in sources]
    while heads := [head for head in heads if not head.is_at_end]:
        if len(heads) == 1:
            yield from heads[0].rest()
            return
        complete = min(int(head.offsets[-1]) for head in heads)
        parts = [head.take(complete) for head in heads]
        yield _in_order([part for part in parts if part[1].num_rows])


class _Head:
    """A source with its next rows."""

    def __init__(self, source: Iterator[SourcedRows]) -> None:
        self.is_at_end = False
        self.offsets = offsets_of(_NONE)
        self._name, self._rows = "", _NONE
        self._source = source
        self._advance()

    def take(self, last_offset: int) -> SourcedRows:
        """Take out the rows up to this offset."""
        count = int(np.searchsorted(self.offsets, last_offset, "right"))
        taken = self._name, self._rows.slice(0, count)
        if count == self._rows.num_rows:
            self._advance()
        else:
            self._rows, self.offsets = self._rows.slice(count), self.offsets[count:]
        return taken

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Take out all rows."""
        while not self.is_at_end:
            yield self._rows
            self._advance()

    def _advance(self) -> None:
        following = next(self._source, None)
        self.is_at_end = following is None
        self._name, self._rows = following or ("", _NONE)
        self.offsets = offsets_of(self._rows)


def _in_order(parts: Sequence[SourcedRows]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0][1]
    rows = pa.Table.from_batches([part for _, part in parts]).combine_chunks()
    offsets = rows.column("offset").to_numpy()
    order = np.argsort(offsets, kind="stable")
    offsets = offsets[order]
    is_twice = offsets[1:] == offsets[:-1]
    if is_twice.any():
        offset = int(offsets[int(np.argmax(is_twice))])
        raise _twice(offset, [name for name, part in parts if offset in offsets_of(part)])
    (batch,) = rows.take(pa.array(order)).to_batches()
    return batch


def _twice(offset: int, names: Iterable[str]) -> PipelineError:
    return PipelineError(
        f"offset {offset} is in {' and in '.join(names)}; `kbroker pipeline audit` shows more"
    )
