"""A log against a plain list: whatever is appended, rolled, cut, deleted and reopened, the records
are the same.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kbroker.log.partition.log import Log
from kbroker.log.segments.fetch_data_info import FetchIsolation
from tests.fakes.logs.log_maker import NOW_MS, batch, delete_old_segments, open_log, read_values

SETTINGS = {"segment_bytes": 600, "index_interval_bytes": 100, "segment_index_bytes": 4096}


class LogModel(RuleBasedStateMachine):
    """`values` holds the value of every offset from 0 on; batches start at `starts`."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="log-model-"))
        self.log: Log = open_log(self.directory, **SETTINGS)
        self.values: list[bytes] = []
        self.starts: list[int] = []
        self.epoch = 0
        self.epochs: list[tuple[int, int]] = []

    def teardown(self) -> None:
        shutil.rmtree(self.directory)

    @rule(values=st.lists(st.binary(max_size=120), min_size=1, max_size=4), codec=st.integers(0, 4))
    def append(self, values: list[bytes], codec: int) -> None:
        info = self.log.append_as_leader(batch(*values, compression=codec), self.epoch, NOW_MS)
        assert info.first_offset == len(self.values)
        if not self.epochs or self.epochs[-1][0] != self.epoch:
            self.epochs.append((self.epoch, info.first_offset))
        self.starts.append(info.first_offset)
        self.values += values

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @rule(share=st.floats(0, 1))
    def advance_high_watermark(self, share: float) -> None:
        self.log.update_high_watermark(int(len(self.values) * share))

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        self.log.maybe_increment_log_start_offset(int(self.log.high_watermark * share))
        delete_old_segments(self.log, NOW_MS)

    @precondition(lambda self: self.starts)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        low = self.log.log_start_offset
        possible = [start for start in self.starts if start >= low]
        if not possible:
            return
        offset = data.draw(st.sampled_from(possible))
        self.log.truncate_to(offset)
        del self.values[offset:]
        self.starts = [start for start in self.starts if start < offset]
        self.epochs = [entry for entry in self.epochs if entry[1] < offset]

    @rule(is_clean=st.booleans())
    def reopen(self, is_clean: bool) -> None:
        start = self.log.log_start_offset
        watermark = self.log.high_watermark
        if is_clean:
            self.log.close()
        else:
            self.log.files.close_files()  # as a killed process leaves them
        self.log = open_log(self.directory, was_clean=is_clean, start=start, **SETTINGS)
        self.log.update_high_watermark(watermark)

    @invariant()
    def offsets_agree(self) -> None:
        log = self.log
        assert log.log_end_offset == len(self.values)
        assert 0 <= log.log_start_offset <= log.high_watermark <= log.log_end_offset

    @invariant()
    def records_agree(self) -> None:
        offset = self.log.log_start_offset
        held = [start for start in self.starts if start <= offset]
        expected = self.values[held[-1] if held else 0 :] if offset < len(self.values) else []
        assert self.read_from(offset) == expected

    @invariant()
    def epochs_agree(self) -> None:
        start = self.log.log_start_offset
        for offset in range(start, len(self.values)):
            wrote = [epoch for epoch, first in self.epochs if first <= offset]
            assert self.log.leader_epoch_cache.epoch_for_offset(offset) == wrote[-1]

    def read_from(self, offset: int) -> list[bytes | None]:
        found: list[bytes | None] = []
        while offset < self.log.log_end_offset:
            data = self.log.read(offset, 300, FetchIsolation.LOG_END, True).records.read()
            values = read_values(data)
            assert values
            offset = max(start for start in self.starts if start <= offset)
            offset += len(values)
            found += values
        return found


LogModel.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestLogModel = LogModel.TestCase
