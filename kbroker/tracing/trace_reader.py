"""The entries on their way to one reader.

Pure. Law: bounded: a reader that takes entries more slowly than they come misses the oldest, and
hears how many.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from kbroker.tracing.trace_entry import TraceEntry
from kbroker.tracing.trace_filter import TraceFilter

MISSED: Final = "missed"  # a line with this field alone counts the entries lost before the next
KEPT_MAX: Final = 1_000  # entries, of about a kilobyte


class Taken(NamedTuple):
    """The entries since the last look, the oldest first, and how many were lost before them."""

    missed: int
    entries: tuple[TraceEntry, ...]


class TraceReader:
    """The entries that fit one filter. Owned by the broker's loop."""

    __slots__ = ("_entries", "_missed", "wanted")

    def __init__(self, wanted: TraceFilter, kept_max: int = KEPT_MAX) -> None:
        self.wanted = wanted
        self._entries: deque[TraceEntry] = deque(maxlen=kept_max)
        self._missed = 0

    def add(self, entry: TraceEntry) -> None:
        """Keep an entry until it is taken, in the place of the oldest if there are too many."""
        self._missed += len(self._entries) == self._entries.maxlen
        self._entries.append(entry)

    def take(self) -> Taken:
        """Return what has come, and forget it."""
        taken = Taken(self._missed, tuple(self._entries))
        self._entries.clear()
        self._missed = 0
        return taken
