"""Reads a log in every way there is and holds the answers against what was acknowledged.

A record is wrong when its bytes differ from those acknowledged at that offset; a record is missing
when no fetch brings it and nothing excuses that.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.partition.log import Log
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.record.legacy_record import any_records, read_any_header
from kbroker.record.record_batch import LOG_OVERHEAD, BatchHeader, Record, read_control
from tests.fakes.logs.time_search import first_at, first_of_newest
from tests.faults.flip_templates import Template

_COMMITTED = FetchIsolation.TXN_COMMITTED
_UNCOMMITTED = FetchIsolation.HIGH_WATERMARK


class Examination:
    """One log against its template; `lost` are the offsets that may be missing."""

    def __init__(
        self, log: Log, template: Template, lost: set[int], *, has_start: bool = True
    ) -> None:
        self._has_start = has_start
        self._log = log
        self._template = template
        self._lost = lost
        self.problems: list[str] = []
        self.refused = 0  # fetches answered with CORRUPT_MESSAGE
        self.served: set[int] = set()
        self.has_other_epochs = False

    def run(self) -> None:
        """All ways to read."""
        self._log.update_high_watermark(self._log.log_end_offset)
        self._read_through(_UNCOMMITTED)
        self._read_through(_COMMITTED)
        self._read_each_offset()
        self._ask_for_times()
        self._list_offsets()
        expected = [tuple(entry) for entry in self._template.epochs]
        self.has_other_epochs = self._log.leader_epoch_cache.entries != expected

    def _read_through(self, isolation: FetchIsolation) -> None:
        """As a consumer from the start to the end; behind a damaged batch it seeks on."""
        offset = self._log.log_start_offset
        end = self._log.high_watermark
        if isolation is _COMMITTED:
            end = self._log.last_stable_offset
        got: set[int] = set()
        while offset < end:
            data, aborted = self._fetch(offset, 700, isolation)
            if data is None:
                offset += 1
                continue
            next_offset = offset
            for header, records in _batches(data):
                next_offset = max(next_offset, header.last_offset + 1)
                got.update(self._take(offset, header, records, aborted))
            if next_offset == offset:
                break  # nothing that was acknowledged may be behind
            offset = next_offset
        wanted = {o for o in self._template.records if self._log.log_start_offset <= o < end}
        if isolation is _COMMITTED:
            if got & self._template.aborted:
                self.problems.append(f"aborted served: {sorted(got & self._template.aborted)[:5]}")
            wanted -= self._template.aborted
        else:
            self.served = got
        missing = wanted - got - self._lost
        if missing:
            self.problems.append(f"{isolation.name}: missing {sorted(missing)[:5]}")

    def _fetch(
        self, offset: int, max_bytes: int, isolation: FetchIsolation
    ) -> tuple[bytes | None, list[tuple[int, int]]]:
        """(bytes, aborted producers with their first offset); no bytes where the batch is bad."""
        try:
            data = self._log.read(offset, max_bytes, isolation, min_one_message=True)
        except KafkaError as error:
            if error.code != ErrorCode.CORRUPT_MESSAGE:
                raise
            self.refused += 1
            if offset not in self._lost and offset in self._template.records:
                self.problems.append(f"refused {offset}: {error}")
            return None, []
        aborted = sorted((a.first_offset, a.producer_id) for a in data.aborted_transactions or ())
        return data.records.read(), aborted

    def _take(
        self,
        offset: int,
        header: BatchHeader,
        records: list[Record],
        aborted: list[tuple[int, int]],
    ) -> Iterator[int]:
        """The offsets a consumer gets of a batch; what it must not get is noted."""
        for first_offset, producer_id in aborted:
            is_open = first_offset <= header.last_offset and producer_id == header.producer_id
            if is_open and header.is_control:
                marker = read_control(records[0])
                if marker is not None and not marker.is_commit:
                    aborted.remove((first_offset, producer_id))
                return
            if is_open:
                return
        if header.is_control:
            return
        for record in records:
            if record.offset < offset:
                continue
            if self._template.records.get(record.offset) != record:
                self.problems.append(f"wrong record at {record.offset}")
            yield record.offset

    def _read_each_offset(self) -> None:
        for offset in range(self._log.log_start_offset, self._log.log_end_offset, 3):
            data, _ = self._fetch(offset, 1, _UNCOMMITTED)
            if not data:  # refused, or the last offsets, which cleaning removed
                continue
            header, records = next(_batches(data))
            if header.last_offset < offset:
                self.problems.append(f"fetch {offset} gave a batch that ends before it")
            skipped = {
                o
                for o in self._template.records
                if offset <= o < min((r.offset for r in records), default=header.last_offset)
            }
            if skipped - self._lost:
                self.problems.append(f"fetch {offset} skipped {sorted(skipped - self._lost)[:5]}")
            for _ in self._take(offset, header, records, []):
                pass

    def _ask_for_times(self) -> None:
        records = [self._template.records[offset] for offset in sorted(self.served)]
        times = sorted({record.timestamp for record in records if record.timestamp >= 0})
        for time_ms in [0, *times[::5], *times[-1:]]:
            found = first_at(self._log, time_ms)
            wanted = next((r for r in records if r.timestamp >= time_ms), None)
            self._compare_time(f"time {time_ms}", found, wanted)
        if records and not self._lost:  # the largest time may be below the log start otherwise
            newest = max(records, key=lambda record: record.timestamp)
            found = first_of_newest(self._log)
            if newest.timestamp >= 0 and self._template.name.startswith(("plain", "one")):
                self._compare_time("largest time", found, newest)

    def _compare_time(
        self, what: str, found: tuple[int, int, int | None] | None, wanted: Record | None
    ) -> None:
        is_marker = found is not None and found[1] not in self._template.records
        if is_marker:
            return
        answer = found[:2] if found is not None else None
        if answer != ((wanted.timestamp, wanted.offset) if wanted is not None else None):
            self.problems.append(f"{what}: {answer}, expected {wanted and wanted[:2]}")

    def _list_offsets(self) -> None:
        log, template = self._log, self._template
        known = [last for _, last in template.batches if last not in self._lost]
        end = log.log_end_offset
        if end > template.end_offset or (known and end <= max(known) and not self._is_cut()):
            self.problems.append(f"log end {end}, expected {template.end_offset}")
        if self._has_start and log.log_start_offset != template.start_offset and not self._lost:
            self.problems.append(f"log start {log.log_start_offset}")

    def _is_cut(self) -> bool:
        return (
            self._template.end_offset - 1 in self._lost
            or self._lost >= self._template.records.keys()
        )


def _batches(data: bytes) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """The whole batches in fetched bytes, taken at their word: no checksum is looked at."""
    position = 0
    while len(data) - position >= LOG_OVERHEAD:
        if position + LOG_OVERHEAD + int.from_bytes(data[position + 8 : position + 12]) > len(data):
            return
        header = read_any_header(data, position)
        end = position + header.size_bytes
        yield header, list(any_records(data[position:end]))
        position = end
