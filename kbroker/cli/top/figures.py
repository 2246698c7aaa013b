"""Figures and names as they stand in a cell of the screen: short, and inert. Pure."""

from __future__ import annotations

from typing import Final

from kbroker.wording import duration_text

UNKNOWN: Final = "-"
_MOST_CHARACTERS: Final = 500  # no terminal shows as many in a cell
_DAY_S: Final = 86_400
_LONGEST_DAYS: Final = 99
_COUNTS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_BYTES: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def amount(number: float | None) -> str:
    """Return a count or a rate in at most 7 characters.

    >>> amount(0.25), amount(12_345), amount(1_234_567)
    ('0.2', '12,345', '1.2M')
    """
    if number is None:
        return UNKNOWN
    if number < 10 and number != int(number):
        return f"{number:.1f}"
    if number < 99_999.5:
        return f"{number:,.0f}"
    unit, sign = next((unit, sign) for unit, sign in _COUNTS if number >= unit)
    return f"{number / unit:,.0f}{sign}" if unit == 1e3 else f"{number / unit:,.1f}{sign}"


def exact(number: float | None) -> str:
    """Return a count in at most 9 characters, with all of its digits if they fit."""
    return f"{number:,.0f}" if number is not None and number < 10_000_000 else amount(number)


def size(number: float | None) -> str:
    """Return bytes in at most 8 characters.

    >>> size(512), size(2_500_000)
    ('512 B', '2.5 MB')
    """
    if number is None:
        return UNKNOWN
    for unit, sign in _BYTES:
        if number >= unit:
            return f"{number / unit:,.1f} {sign}"
    return f"{number:.0f} B"


def time_text(seconds: float) -> str:
    """Return a time in at most 7 characters, such as `12 s`, `2.5 h` or `3 d`."""
    if seconds < 2 * _DAY_S:
        return duration_text(seconds)
    days = seconds / _DAY_S
    return f"{days:.0f} d" if days <= _LONGEST_DAYS else f">{_LONGEST_DAYS} d"


def inert(text: str) -> str:
    """Return a text that no terminal obeys: what is not printable, such as the codes of colours
    and marks that turn the direction of writing, is shown as its escape.
    """
    text = text[:_MOST_CHARACTERS]
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
