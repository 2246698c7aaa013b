"""SnapshotWriting: a snapshot of very many producers, written in small steps.

Law: what is written is the state of the moment in which it began: entries that change meanwhile are
replaced by copies. Until the file is there the one before counts, as after a loss of power, for the
log itself has the rest. A log that is cut below the snapshot has nothing more to do with it.

Owned by the event loop.
"""

from __future__ import annotations

from kbroker.log.producers.producer_snapshot import ProducerSnapshots, encode_rows
from kbroker.log.producers.producer_state import ProducerStateManager

AT_ONCE = 1000  # producers; two milliseconds


class SnapshotWriting:
    """The writing of one snapshot, of a log at `offset`."""

    def __init__(
        self, state: ProducerStateManager, snapshots: ProducerSnapshots, offset: int
    ) -> None:
        self.offset = offset
        self.is_over = False
        self.state = state
        self.is_written = False
        self._snapshots = snapshots
        self._entries = state.share()
        self._rows: list[bytes] = []

    def step(self) -> str | None:
        """Do a part of it; the path of the file once that is written. StorageError."""
        begin = len(self._rows) * AT_ONCE
        if begin < len(self._entries):
            self._rows.append(encode_rows(self._entries[begin : begin + AT_ONCE]))
            return None
        count = len(self._entries)
        self.drop()
        path = self._snapshots.write_rows(self.offset, count, self._rows)
        self.is_written = True
        return path

    def drop(self) -> None:
        """Write no more of it."""
        if not self.is_over:
            self.is_over = True
            self.state.end_share()
            self._entries = []
