"""The offset from which on each leader epoch wrote: replicas compare them to find where their logs
part.

Law: epochs and start offsets both rise from entry to entry, and an entry ends where the next one
starts: followers find the point where logs diverge by them. The file `leader-epoch-checkpoint` is
written when an entry changes, never per append. KIP-101, KIP-279.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import NamedTuple

from kbroker.log.disk.checkpoint import EpochEntry
from kbroker.log.disk.file_system import StorageError

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1

_log = logging.getLogger(__name__)


class EpochEndOffset(NamedTuple):
    """The answer to "where did this epoch end": both -1 when unknown. `end_offset` is exclusive."""

    epoch: int
    end_offset: int


UNDEFINED_EPOCH_END_OFFSET = EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)


class LeaderEpochCache:
    """The epoch entries of one log, owned by that log; `store` writes them to its file.

    `store` is called with all entries after each change. It may skip the fsync: recovery assigns
    the epochs of all batches past the recovery point again, and the log syncs the file before that
    point moves. While `is_kept` is False no epoch is noted: old message formats do not have them.
    """

    __slots__ = ("_entries", "_store", "changes", "is_kept", "latest_epoch")

    def __init__(
        self, entries: Iterable[EpochEntry], store: Callable[[list[EpochEntry]], None]
    ) -> None:
        self._entries: list[EpochEntry] = []
        self._store = store
        self.latest_epoch = UNDEFINED_EPOCH  # read per append, so it is a plain attribute
        self.is_kept = True
        self.changes = 0  # how often the file was written: a flush syncs it only then
        for entry in entries:
            self._add(entry)

    @property
    def entries(self) -> list[EpochEntry]:
        """A copy of the entries, oldest first."""
        return list(self._entries)

    @property
    def oldest(self) -> EpochEntry | None:
        """The first entry. It starts after the log if the records before it were cleaned away in
        the log that this one is a copy of: nobody here knows who wrote those.
        """
        return self._entries[0] if self._entries else None

    def keep(self, is_kept: bool) -> None:
        """Note epochs from now on, or none."""
        self.is_kept = is_kept

    def store_in(self, store: Callable[[list[EpochEntry]], None]) -> None:
        """The file is elsewhere from now on."""
        self._store = store

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` writes from `start_offset` on; entries that contradict it go.

        The leader and what it wrote last are right by definition, so an older entry that starts
        later or has a higher epoch is the tail of a log that was cut.
        """
        assert epoch >= 0, epoch
        assert start_offset >= 0, start_offset
        if not self.is_kept:
            return
        before = list(self._entries), self.latest_epoch
        if self._add(EpochEntry(epoch, start_offset)):
            try:
                self._store(self._entries)
            except Exception:
                # Not written, so not so: the next append tries again.
                self._entries, self.latest_epoch = before
                raise
            self.changes += 1

    def learn(self, epoch: int, first_offset: int, last_offset: int) -> None:
        """Batches of `epoch` were found: entries that contradict them are of records that had
        replaced them and were lost, even if only later ones show that.
        """
        if epoch >= 0 and (self.epoch_for_offset(last_offset) or 0) > epoch:
            self.truncate_from_end(next(e for e in self._entries if e.epoch > epoch).start_offset)
        known = self.epoch_for_offset(first_offset)
        if epoch > (self.latest_epoch if known is None else known):
            self.assign(epoch, first_offset)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """The largest epoch of this log that is not above `epoch`, and the offset where it ended.

        The present epoch ends at the log end. An epoch above all known ones is unknown here; one
        below all of them is answered with itself and the start of the oldest entry, so that the
        asker truncates to there.
        """
        if epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH_END_OFFSET
        if epoch == self.latest_epoch:
            return EpochEndOffset(epoch, log_end_offset)
        index = bisect_right(self._entries, epoch, key=attrgetter("epoch"))
        if index == len(self._entries):
            return UNDEFINED_EPOCH_END_OFFSET
        floor_epoch = self._entries[index - 1].epoch if index else epoch
        return EpochEndOffset(floor_epoch, self._entries[index].start_offset)

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch that wrote `offset`, None when that is before the oldest entry."""
        index = bisect_right(self._entries, offset, key=attrgetter("start_offset"))
        return self._entries[index - 1].epoch if index else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the entries that start at or after `end_offset`."""
        if end_offset < 0 or not self._entries or self._entries[-1].start_offset < end_offset:
            return
        while self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()
        self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop what is before `start_offset`; the epoch in force there now starts there."""
        index = bisect_right(self._entries, start_offset, key=attrgetter("start_offset"))
        if index == 0 or start_offset < 0:
            return
        floor = self._entries[index - 1]
        if index == 1 and floor.start_offset == start_offset:
            return
        self._entries[:index] = [EpochEntry(floor.epoch, start_offset)]
        self._changed()

    def replace(self, entries: Iterable[EpochEntry]) -> None:
        """Take over the entries of the log that this one is a copy of. StorageError: as before."""
        wanted = list(entries)
        if wanted == self._entries or not self.is_kept:
            return
        self._store(wanted)
        self._entries = wanted
        self.latest_epoch = wanted[-1].epoch if wanted else UNDEFINED_EPOCH
        self.changes += 1

    def clear(self) -> None:
        """Forget the epochs of all records."""
        if self._entries:
            self._entries.clear()
            self._changed()

    def _add(self, entry: EpochEntry) -> bool:
        entries = self._entries
        if entries:
            latest = entries[-1]
            if latest.epoch == entry.epoch and entry.start_offset >= latest.start_offset:
                return False
        removed = 0
        while entries and (
            entries[-1].epoch >= entry.epoch or entries[-1].start_offset >= entry.start_offset
        ):
            last_removed = entries.pop()
            removed += 1
        if removed > 1 or (removed and last_removed.start_offset != entry.start_offset):
            _log.warning("Epoch entry %s replaces %d entries that contradict it", entry, removed)
        entries.append(entry)
        self.latest_epoch = entry.epoch
        return True

    def _changed(self) -> None:
        self.latest_epoch = self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH
        try:
            self._store(self._entries)
        except StorageError as error:
            # Cutting goes on without room or descriptors: loading cuts an older file the same way.
            if not error.is_passing:
                raise
        self.changes += 1
