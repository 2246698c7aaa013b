"""Lays out rows as a table that fits the width of a terminal.

Law: no value is shortened, so that a narrow terminal hides nothing. If a table is too wide, its
heads break at `_` first; then the widest columns fold, between words as long as that is enough.
Pure: the width is given.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from itertools import zip_longest

_GAP = "  "


def fitted_table(
    rows: Sequence[Sequence[str]], width: int | None
) -> Callable[[Sequence[str]], tuple[str, ...]]:
    """Return a function that lays out a row in one line, or several. The columns are as wide as
    these rows need, of which the heads are the first.

    `width`: columns of the terminal, None for any number. Lines are wider only if there is no room
    for a character of each column.
    """
    natural = _widest(rows, columns_of)
    room = None if width is None else width - len(_GAP) * (len(natural) - 1)
    if room is None or sum(natural) <= room:
        return lambda row: (_line(row, natural),)
    heads, *values = rows
    broken = [[head.replace("_", " ") for head in heads], *values]
    words = _widest(broken, _longest_word)
    head_words = [_longest_word(head) for head in broken[0]]
    widths = _widest(broken, columns_of)
    for least in (words, head_words, [1] * len(heads)):
        _shrink(widths, least, room)

    def lines(row: Sequence[str]) -> tuple[str, ...]:
        folded = map(_folded, broken[0] if row is heads else row, widths)
        return tuple(_line(cells, widths) for cells in zip_longest(*folded, fillvalue=""))

    return lines


def has_room_for(rows: Sequence[Sequence[str]], width: int) -> bool:
    """Whether a table of `width` columns breaks no word: its heads, the first row, at `_` alone."""
    heads, *values = rows
    words = _widest([[head.replace("_", " ") for head in heads], *values], _longest_word)
    return sum(words) + len(_GAP) * (len(words) - 1) <= width


def columns_of(text: str) -> int:
    """Count the columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _widest(rows: Sequence[Sequence[str]], size: Callable[[str], int]) -> list[int]:
    return [max(map(size, column)) for column in zip(*rows, strict=True)]


def _longest_word(text: str) -> int:
    return max(map(columns_of, text.split()), default=0)


def _shrink(widths: list[int], least: Sequence[int], room: int) -> None:
    """Take from the widest columns until the sum of `widths` is `room`, or each is at its least."""
    while sum(widths) > room:
        wide = [index for index, width in enumerate(widths) if width > least[index]]
        if not wide:
            return
        widths[max(wide, key=widths.__getitem__)] -= 1


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        cell + " " * (width - columns_of(cell)) for cell, width in zip(cells, widths, strict=True)
    )
    return _GAP.join(padded).rstrip()


def _folded(text: str, width: int) -> list[str]:
    """Fold a text into lines of at most `width` columns; a longer word is cut."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if columns_of(joined) <= width:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        for character in word:
            if lines[-1] and columns_of(lines[-1]) + _columns(character) > width:
                lines.append("")
            lines[-1] += character
    return lines
