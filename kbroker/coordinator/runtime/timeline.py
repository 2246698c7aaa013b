"""Entries of a coordinator's state together with what is stored of them.

Pure. Law: the next decision rests on the newest value; the outside sees the stored one. A write
that is not stored yet notes what each entry was before it changed it. Writes are undone newest
first, and then the entries are as they were; they are stored oldest first, and then the entries are
final. What the log has taken is not undone, stored or not. With nothing on its way an entry is a
plain entry of a dict.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, ItemsView, Iterable, Iterator, MutableMapping
from typing import Any, Generic, TypeVar, overload

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
D = TypeVar("D")
_Change = tuple[int, "TimelineDict[Any, Any]", Hashable]  # in this write, of this entry


class Timeline:
    """The changes that are not stored yet, of all entries of one partition."""

    __slots__ = ("_changes", "_last_taken", "_write", "is_noting")

    def __init__(self) -> None:
        self._changes: deque[_Change] = deque()
        self._write = 0
        self._last_taken = 0
        self.is_noting = False  # between `begin` and `end`

    def __bool__(self) -> bool:
        """True when something is not stored yet."""
        return bool(self._changes)

    def begin(self, write: int) -> None:
        """Changes from now on belong to this write; numbers rise."""
        self._write = write
        self.is_noting = True

    def end(self) -> None:
        """Changes from now on are final."""
        self.is_noting = False

    def note(self, entries: TimelineDict[Any, Any], key: Hashable) -> None:
        self._changes.append((self._write, entries, key))

    @property
    def write(self) -> int:
        return self._write

    def take(self, write: int) -> None:
        """The log has a write, and every earlier one: they are not undone any more."""
        self._last_taken = write

    def may_undo(self, write: int) -> bool:
        """Whether a write is on its way to the log."""
        return write > self._last_taken

    def store(self, write: int) -> None:
        """A write is stored, and every earlier one with it: they are before it in the log."""
        changes = self._changes
        while changes and changes[0][0] <= write:
            _, entries, key = changes.popleft()
            entries.forget_oldest(key)

    def roll_back(self, write: int) -> None:
        """Undo a write, and all later ones, as they rest on it."""
        changes = self._changes
        while changes and changes[-1][0] >= write:
            number, entries, key = changes.pop()
            entries.undo_newest(key, number)


class TimelineDict(MutableMapping[K, V], Generic[K, V]):
    """A dict of the newest values, which knows the stored ones too."""

    __slots__ = ("_before", "_newest", "_timeline", "last_write")

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._newest: dict[K, V] = {}
        self._before: dict[K, list[V | None]] = {}  # of entries that are not stored, oldest first
        self.last_write = 0  # the newest that changed an entry, and was not undone

    # ---- the newest values

    def __getitem__(self, key: K) -> V:
        return self._newest[key]

    def __setitem__(self, key: K, value: V) -> None:
        if self._timeline.is_noting:
            self._note(key)
        self._newest[key] = value

    def put_all(self, entries: Iterable[tuple[K, V]]) -> None:
        """Set many, in a third of the time; they may be found out while they are set."""
        if not self._timeline.is_noting:
            self._newest.update(entries)
            return
        newest, kept, timeline = self._newest, self._before, self._timeline
        for key, value in entries:
            former, before = newest.get(key), kept.get(key)
            if before is None:
                kept[key] = [former]
            else:
                before.append(former)
            timeline.note(self, key)
            newest[key] = value
            self.last_write = timeline.write

    def __delitem__(self, key: K) -> None:
        if self._timeline.is_noting:
            self._note(key)
        del self._newest[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._newest)

    def __len__(self) -> int:
        return len(self._newest)

    # As any mapping has them, in a fifth of the time.

    def __contains__(self, key: object) -> bool:
        return key in self._newest

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V) -> V: ...
    @overload
    def get(self, key: K, /, default: D) -> V | D: ...
    def get(self, key: K, /, default: object = None) -> object:
        return self._newest.get(key, default)

    def items(self) -> ItemsView[K, V]:
        """As of any mapping; all offsets of a broker are gone through in one turn of the loop."""
        return self._newest.items()

    # ---- the stored ones

    def stored(self, key: K) -> V | None:
        """Return the value that is stored; None if there is none."""
        before = self._before.get(key) if self._before else None
        return self._newest.get(key) if before is None else before[0]

    def stored_keys(self) -> list[K]:
        """The keys that have a stored value."""
        if not self._before:
            return list(self._newest)
        keys = dict.fromkeys((*self._newest, *self._before))
        return [key for key in keys if self.stored(key) is not None]

    def is_stored(self, key: K) -> bool:
        """False while a change of this entry is on its way."""
        return key not in self._before

    @property
    def are_stored(self) -> bool:
        """False while a change of any entry is on its way."""
        return not self._before

    @property
    def may_change_back(self) -> bool:
        """True while a change of any entry is on its way to the log, which may refuse it."""
        return bool(self._before) and self._timeline.may_undo(self.last_write)

    # ---- for the timeline

    def _note(self, key: K) -> None:
        value, before = self._newest.get(key), self._before.get(key)
        if before is None:
            self._before[key] = [value]
        else:
            before.append(value)
        self.last_write = self._timeline.write
        self._timeline.note(self, key)

    def forget_oldest(self, key: K) -> None:
        """The oldest change of this entry is stored."""
        before = self._before[key]
        del before[0]
        if not before:
            del self._before[key]

    def undo_newest(self, key: K, write: int) -> None:
        """The newest change of this entry, and all of `write`, never was."""
        self.last_write = min(self.last_write, write - 1)
        before = self._before[key]
        value = before.pop()
        if value is None:
            self._newest.pop(key, None)
        else:
            self._newest[key] = value
        if not before:
            del self._before[key]
