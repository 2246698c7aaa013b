"""JSON in several lines, with every name and number as it was written.

Law: nothing but space between tokens changes: 1.10 stays 1.10, and a name that comes twice comes
twice. A text that would become much longer stays as it is. Only what is wanted is laid out. Pure.
"""

from __future__ import annotations

import re
from typing import Final

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_OPENING, _CLOSING = ("{", "["), ("}", "]")
_INDENT = "  "
MOST_GROWTH: Final = 4
_ALWAYS_FINE = 10_000  # letters


def indented(text: str, most_letters: int | None = None) -> str:
    """Return a text that is valid JSON with a line for each element and each field; of a long one
    the beginning, of about `most_letters`.

    >>> print(indented('{"a": [1.10, {}]}'))
    {
      "a": [
        1.10,
        {}
      ]
    }
    """
    pieces: list[str] = []
    stop = len(text) if most_letters is None else most_letters
    left = max(MOST_GROWTH * len(text), _ALWAYS_FINE)
    line = "\n"  # with the space that begins one, at this depth
    for found in _TOKEN.finditer(text):
        if found.start() > stop:
            break
        part = found[0]
        if part == ",":
            pieces += (part, line)
            left -= len(line)
        elif part == ":":
            pieces.append(": ")
        elif part in _OPENING:
            line += _INDENT
            pieces += (part, line)
            left -= len(line)
        elif part in _CLOSING:
            line = line[: -len(_INDENT)]
            is_empty = pieces[-2] in _OPENING and pieces[-1].startswith("\n")
            pieces[-1:] = (part,) if is_empty else (pieces[-1], line, part)
            left -= len(line)
        else:
            pieces.append(part)
        if left < 0:
            return text
    return "".join(pieces)
