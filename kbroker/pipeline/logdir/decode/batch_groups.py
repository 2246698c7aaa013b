"""Cuts the batches of a piece into groups whose uncompressed records are in one buffer.

Batches without compression stay where they were read. If any has one, all are brought into a room
that is used again and again: what is made of a group may not refer to its buffer later on. A batch
that does not fit into the room is a group of its own, within a limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from kbroker.errors import KafkaError
from kbroker.pipeline.logdir.decode.batch_headers import BatchHeaders, Int64s
from kbroker.pipeline.logdir.decode.record_chain import Regions
from kbroker.pipeline.logdir.decode.segment_pieces import Piece
from kbroker.pipeline.logdir.decode.tuple_decoder import UnreadableBatchError
from kbroker.record.compression import decompress, decompress_into
from kbroker.record.default_record import Bytes
from kbroker.record.record_batch import HEADER_SIZE

MAX_DECOMPRESSED_BYTES: Final = 128 * 1024 * 1024  # of one batch
ROOM_BYTES: Final = 4 * 1024 * 1024
GROUP_ROWS: Final = 64 * 1024  # more than rows are given at once: it spreads numpy's cost per call


class BatchGroup(NamedTuple):
    """Some batches of a piece."""

    chosen: Int64s  # their indexes in the piece
    regions: Regions


class BatchGroups:
    """Cuts for one task; a group is valid until the next is asked for."""

    def __init__(self, rows: int) -> None:
        self._rows = max(rows, GROUP_ROWS)
        self._room: bytearray | None = None

    def unopened(self, headers: BatchHeaders, chosen: Int64s) -> Iterator[BatchGroup]:
        """Group batches whose records are not looked at."""
        for part, counts in self._cut(headers, chosen):
            nowhere = np.zeros_like(part)
            yield BatchGroup(part, Regions(b"", nowhere, nowhere, counts))

    def opened(self, piece: Piece, headers: BatchHeaders, chosen: Int64s) -> Iterator[BatchGroup]:
        """Group batches with their records. Raises UnreadableBatchError after those before the
        broken one.
        """
        compression = headers.compression
        if compression[chosen].any():
            return self._unpacked(piece, headers, chosen)
        return self._in_place(piece, headers, chosen)

    def _cut(self, headers: BatchHeaders, chosen: Int64s) -> Iterator[tuple[Int64s, Int64s]]:
        """Indexes and record counts of batches, in parts of `rows` records."""
        counts = headers.field("record_count")[chosen]
        cuts = np.flatnonzero(np.diff(np.cumsum(counts) // self._rows)) + 1
        yield from zip(np.split(chosen, cuts), np.split(counts, cuts), strict=True)

    def _in_place(
        self, piece: Piece, headers: BatchHeaders, chosen: Int64s
    ) -> Iterator[BatchGroup]:
        bounds = np.array(piece.bounds)
        for part, counts in self._cut(headers, chosen):
            starts, ends = bounds[part] + HEADER_SIZE, bounds[part + 1]
            yield BatchGroup(part, Regions(piece.buffer, starts, ends, counts))

    def _unpacked(
        self, piece: Piece, headers: BatchHeaders, chosen: Int64s
    ) -> Iterator[BatchGroup]:
        room = self._room = self._room or bytearray(ROOM_BYTES)
        view = memoryview(piece.buffer)
        filling = _Filling(room, headers.field("record_count"))
        codecs = headers.compression.tolist()
        for index in chosen.tolist():
            packed = view[piece.bounds[index] + HEADER_SIZE : piece.bounds[index + 1]]
            payload: Bytes | None = None
            try:
                if not filling.take(index, codecs[index], packed):
                    payload = decompress(codecs[index], packed, MAX_DECOMPRESSED_BYTES)
            except KafkaError as error:
                if filling.indexes:
                    yield filling.finish()
                raise UnreadableBatchError(index, str(error)) from error
            if payload is not None and not filling.put(index, payload):
                if filling.indexes:
                    yield filling.finish()
                if not filling.put(index, payload):
                    yield filling.alone(index, payload)
            if filling.rows >= self._rows:
                yield filling.finish()
        if filling.indexes:
            yield filling.finish()


class _Filling:
    """A room that batches are unpacked into, one after the other."""

    def __init__(self, room: bytearray, counts: Int64s) -> None:
        self._room = room
        self._view = memoryview(room)
        self._counts = counts
        self._bounds = [0]
        self.indexes: list[int] = []
        self.rows = 0

    def take(self, index: int, codec: int, packed: memoryview) -> bool:
        """Unpack a batch after the others; False if it does not fit. Raises KafkaError."""
        if not codec:
            return self.put(index, packed)
        at = self._bounds[-1]
        if at == len(self._room):
            return False
        written = decompress_into(codec, packed, self._view[at:])
        if written is None:
            return False
        self._add(index, written)
        return True

    def put(self, index: int, payload: Bytes) -> bool:
        """Copy records after the others; False if they do not fit."""
        at = self._bounds[-1]
        end = at + len(payload)
        if end > len(self._room):
            return False
        self._view[at:end] = payload
        self._add(index, len(payload))
        return True

    def alone(self, index: int, payload: Bytes) -> BatchGroup:
        """Make a group of one batch in a buffer of its own."""
        chosen = np.array([index])
        return BatchGroup(
            chosen,
            Regions(payload, np.array([0]), np.array([len(payload)]), self._counts[chosen]),
        )

    def finish(self) -> BatchGroup:
        """Make a group of the batches in the room, which is empty again."""
        chosen, bounds = np.array(self.indexes), np.array(self._bounds)
        self._bounds, self.indexes, self.rows = [0], [], 0
        regions = Regions(self._room, bounds[:-1], bounds[1:], self._counts[chosen])
        return BatchGroup(chosen, regions)

    def _add(self, index: int, size: int) -> None:
        self._bounds.append(self._bounds[-1] + size)
        self.indexes.append(index)
        self.rows += int(self._counts[index])
