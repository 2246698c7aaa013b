"""Decides which lines of a log are written, if clients decide how often there is cause for one.

Pure. Law: the first of a kind and name is written; like ones within the next minute are left out
and counted. Of one kind only so many names are written in a minute, so that a log is bounded
whatever clients send; so is the memory, which forgets the oldest first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

AGAIN_AFTER_MS = 60_000.0
NAMES_EACH = 20
KEPT_MAX = 1_000


class _Line:
    __slots__ = ("left_out", "lines", "since_ms")

    def __init__(self, since_ms: float) -> None:
        self.since_ms = since_ms
        self.lines = 0
        self.left_out = 0


class RareLines:
    """The lines written lately, and how many like them were not. Owned by the event loop."""

    __slots__ = ("_kept", "_names_each")

    def __init__(self, names_each: int = NAMES_EACH) -> None:
        """`names_each` is how many names of one kind are written in a minute."""
        self._names_each = names_each
        # By kind and name, None for all names of a kind; what came last stands last.
        self._kept: OrderedDict[tuple[Hashable, str | None], _Line] = OrderedDict()

    @property
    def kept(self) -> int:
        """How many kinds and names are remembered."""
        return len(self._kept)

    def left_out(self, kind: Hashable, name: str, now_ms: float) -> int | None:
        """Count one line. Returns how many like it were left out before it, or None if it is left
        out, too. `now_ms` is monotonic.

        >>> lines = RareLines()
        >>> [lines.left_out("tea", "green", at_ms) for at_ms in (0, 1, 2, 60_000)]
        [0, None, None, 2]
        """
        of_name = self._of((kind, name), now_ms)
        if of_name.lines:
            of_name.left_out += 1
            return None
        of_all = self._of((kind, None), now_ms)
        if of_all.lines >= self._names_each:
            of_all.left_out += 1
            return None
        of_name.lines = 1
        of_all.lines += 1
        left_out = of_name.left_out + of_all.left_out
        of_name.left_out = of_all.left_out = 0
        return left_out

    def may_be_written(self, kind: Hashable, now_ms: float) -> bool:
        """Return whether a kind may have another line in this minute, before somebody puts its
        name together; if not, it is counted as one that is left out. `now_ms` is monotonic.
        """
        of_all = self._of((kind, None), now_ms)
        if of_all.lines < self._names_each:
            return True
        of_all.left_out += 1
        return False

    def _of(self, key: tuple[Hashable, str | None], now_ms: float) -> _Line:
        kept = self._kept
        line = kept.get(key)
        if line is None:
            line = kept[key] = _Line(now_ms)
            if len(kept) > KEPT_MAX:
                kept.popitem(last=False)
            return line
        kept.move_to_end(key)
        if now_ms - line.since_ms >= AGAIN_AFTER_MS:
            line.since_ms, line.lines = now_ms, 0
        return line


def note_of(left_out: int) -> str:
    """Return the end of a line that counts the like ones left out before it; empty if none was."""
    return f"; similar lines left out: {left_out:,}" if left_out else ""
