"""Patterns of names, in which `*` stands for anything and `?` for one letter; all others stand for
themselves.

Pure. Patterns are made ready once, by whoever makes them: the broker's loop only compares. A name
that was compared before costs a look into a table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

NAME_CHARACTERS: Final = (
    300  # that are compared: names of topics have 249, and clients say what they like
)
_KNOWN_MAX: Final = 1_024  # names, as many as are looked at of one request


class NamePatterns:
    """Patterns of one kind, of which any has to fit; none fit every name."""

    __slots__ = ("_known", "_match", "texts")

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self.texts = tuple(texts)
        self._match = re.compile("|".join(map(_expression, self.texts)), re.DOTALL).fullmatch
        self._known: dict[str, bool] = {}

    def __bool__(self) -> bool:
        """Whether there are any patterns."""
        return bool(self.texts)

    def fits(self, name: str) -> bool:
        """Whether a name fits; only its beginning is compared.

        >>> NamePatterns(["app-?", "[x]*"]).fits("app-1")
        True
        """
        if not self.texts:
            return True
        name = name[:NAME_CHARACTERS]
        found = self._known.get(name)
        if found is None:
            if len(self._known) == _KNOWN_MAX:
                self._known.clear()
            found = self._known[name] = self._match(name) is not None
        return found


def _expression(pattern: str) -> str:
    """A pattern as a regular expression that never goes back: of what may follow an asterisk, the
    first place that there is is as good as any other.
    """
    first, *others = map(_letters, re.split(r"\*+", pattern))
    if not others:
        return first
    *between, last = others
    return first + "".join(f"(?>.*?{part})" for part in between) + f".*{last}"


def _letters(part: str) -> str:
    return re.escape(part).replace(r"\?", ".")
