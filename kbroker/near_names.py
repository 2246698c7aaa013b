"""Names near to one that nobody knows: the hint of every message that refuses a name. Pure."""

from __future__ import annotations

from collections.abc import Iterable

_SHOWN = 3


def near_names(name: str, known: Iterable[str], *, shown: int = _SHOWN) -> list[str]:
    """The known names that look like `name` in any case, the nearest first.

    >>> near_names("Ordres", ["payments", "orders", "orders-eu"])
    ['orders', 'orders-eu']
    """
    import difflib  # only a misspelt name pays for it

    by_lower = {each.lower(): each for each in known}
    return [by_lower[each] for each in difflib.get_close_matches(name.lower(), by_lower, n=shown)]


def did_you_mean(name: str, known: Iterable[str], *, shown: int = _SHOWN) -> str:
    """The rest of a sentence about an unknown name; empty if no known name is near.

    >>> "no such topic: ordres" + did_you_mean("ordres", ["payments", "orders", "orders-eu"])
    'no such topic: ordres, did you mean orders or orders-eu?'
    """
    near = near_names(name, known, shown=shown)
    if not near:
        return ""
    *others, last = near
    return f", did you mean {', '.join(others)}{' or ' if others else ''}{last}?"
