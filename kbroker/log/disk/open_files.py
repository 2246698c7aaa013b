"""How many data files may be open at once: a process may hold only so many descriptors, and a
broker may have more segments than that.

Law: a file that is opened counts until it is closed; beyond the limit the one opened longest ago is
let go of, and opens itself again when it is used. Nothing is noted on a use, so that an append pays
nothing. Files are let go of by dropping the reference to them: a read under way on another thread
keeps its descriptor until it is done.

There is one count for each file system, hence one for each broker.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol
from weakref import WeakKeyDictionary, ref

from kbroker.log.disk.file_system import FileSystem

DEFAULT_LIMIT = 100_000


class HoldsFile(Protocol):
    """An owner of a file that may be open."""

    def let_go(self) -> None:
        """Drop the file; the next use opens it again."""


class OpenFiles:
    """The holders of open files, the longest open first. Owned by the event loop; while logs are
    loaded, several threads may open files.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self._holders: OrderedDict[ref[HoldsFile], None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._holders)

    def opened(self, holder: HoldsFile) -> None:
        """Count the holder's file; others may have to let go of theirs."""
        self._holders[ref(holder, self._forget)] = None
        while len(self._holders) > max(self.limit, 1):
            self._let_go_of_oldest()

    def closed(self, holder: HoldsFile) -> None:
        self._holders.pop(ref(holder), None)

    def make_room(self) -> bool:
        """No descriptor was free: let go of half of the files; False if there are none."""
        count = len(self._holders)
        for _ in range(-(-count // 2)):
            self._let_go_of_oldest()
        return count > 0

    def _let_go_of_oldest(self) -> None:
        try:
            oldest, _ = self._holders.popitem(last=False)  # in one step: see the class
        except KeyError:
            return
        holder = oldest()
        if holder is not None:
            holder.let_go()

    def _forget(self, holder: ref[HoldsFile]) -> None:
        self._holders.pop(holder, None)


_by_file_system: WeakKeyDictionary[FileSystem, OpenFiles] = WeakKeyDictionary()


def open_files_of(file_system: FileSystem) -> OpenFiles:
    """The count for a file system."""
    found = _by_file_system.get(file_system)
    if found is None:
        found = _by_file_system.setdefault(file_system, OpenFiles())
    return found
