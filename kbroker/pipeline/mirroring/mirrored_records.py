"""Records on their way into another cluster: each says from which clusters it came, and goes to
none of them again. Pure.

Law: key, value, time and headers stay; one header is added behind them. So no record goes round if
two clusters copy the same topic from each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import add
from typing import Final

from kbroker.record.bulk_records import bodies_of_pairs
from kbroker.record.default_record import Record, write_headers

SOURCE_HEADER: Final = "kbroker-mirror-source"
"""Its value is the id of the cluster that a record was copied from; of each, where it came through
several.
"""


class RecordMarks:
    """Marks between two clusters, by their ids."""

    def __init__(self, source_id: str, target_id: str) -> None:
        self._header = (SOURCE_HEADER, source_id.encode())
        self._been_there = (SOURCE_HEADER, target_id.encode())
        self._alone = self._tail(Record(0, 0, None, None))

    def to_copy(self, records: Iterable[Record]) -> list[Record]:
        """Return the records that have not been in the target."""
        return [record for record in records if self._been_there not in record.headers]

    def bodies(self, records: Sequence[Record]) -> list[bytes]:
        """Return keys and values, each with its headers and the new one; see `bulk_records`."""
        pairs = bodies_of_pairs(
            [record.key for record in records], [record.value for record in records]
        )
        tails = [self._tail(each) if each.headers else self._alone for each in records]
        return list(map(add, pairs, tails))

    def _tail(self, record: Record) -> bytes:
        out = bytearray()
        write_headers(out, (*record.headers, self._header))
        return bytes(out)
