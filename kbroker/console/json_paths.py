"""Conditions on a place in JSON, such as `$.order.lines[0].price >= 10`. Nothing in them is run.

    $.name  ['name']  [0]  [*]     the way: fields, elements, all elements
    ==  !=  <  <=  >  >=           compares with a number, "text", true, false or null
    ~                              holds this text
    (nothing)                      the place is there

Law: values of different kinds are unequal, and neither is less; where the way leads to several
places, one that fits is enough. Pure.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

_STEP = re.compile(
    r"\.(?P<field>[^\s.\[\]'\"=!<>~]+)"
    r"|\[\s*(?:(?P<all>\*)|(?P<index>-?\d+)|'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\")\s*\]",
    re.ASCII,
)
_TEST = re.compile(r"\s*(?P<operator>==|!=|<=|>=|=|<|>|~)\s*(?P<value>.*)", re.DOTALL)
_MOST_LETTERS = 1_000
_MOST_PLACES = 10_000  # that one condition looks at in one value
_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ALL: Final = object()
"""The step of a way that leads to all elements."""


@dataclass(frozen=True, slots=True)
class JsonCondition:
    """A way into a value, and what must hold there; `test` is empty if the place must be there."""

    way: tuple[Any, ...]
    test: str = ""
    wanted: Any = None

    def holds(self, value: Any) -> bool:
        """Whether a value that was read from JSON fits."""
        return any(self._fits(found) for found in _found(value, self.way))

    def _fits(self, found: Any) -> bool:
        if not self.test:
            return True
        if self.test == "~":
            text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
            return str(self.wanted) in text
        is_same_kind = _kind(found) == _kind(self.wanted)
        if self.test in ("==", "!="):
            is_equal = is_same_kind and found == self.wanted
            return is_equal == (self.test == "==")
        is_ordered = is_same_kind and _kind(found) in ("number", "text")
        return is_ordered and _COMPARED[self.test](found, self.wanted)


def json_condition(text: str) -> JsonCondition:
    """Read a condition. ValueError with a sentence for a malformed one.

    >>> json_condition("$.a[0] >= 2").holds({"a": [2]})
    True
    """
    text = text.strip()
    if len(text) > _MOST_LETTERS:
        raise ValueError(f"a condition on JSON has at most {_MOST_LETTERS:,} letters")
    at = 1 if text.startswith("$") else 0
    if at == 0:
        raise ValueError(f"'{text}' does not begin with $, as in $.name == \"ann\"")
    way: list[Any] = []
    while (step := _STEP.match(text, at)) is not None:
        way.append(_step(step))
        at = step.end()
    rest = text[at:]
    if not rest.strip():
        return JsonCondition(tuple(way))
    test = _TEST.fullmatch(rest)
    if test is None:
        raise ValueError(f"'{rest.strip()}' is neither a step nor a test, such as .name or >= 10")
    sign = "==" if test["operator"] == "=" else test["operator"]
    return JsonCondition(tuple(way), sign, _wanted(sign, test["value"].strip()))


def _step(found: re.Match[str]) -> Any:
    if found["all"]:
        return ALL
    if found["index"]:
        return int(found["index"])
    name = found["field"] or found["single"]
    return name if name is not None else found["double"]


def _wanted(sign: str, text: str) -> Any:
    """Return the value to compare with: JSON, or else the text as it is."""
    if not text:
        raise ValueError(f'nothing follows {sign}: give a number, "text", true, false or null')
    try:
        wanted = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if sign == "~":
        return wanted if isinstance(wanted, str) else text
    if sign in _COMPARED and _kind(wanted) not in ("number", "text"):
        raise ValueError(f'{text} is neither less nor more than others: give a number or "text"')
    return wanted


def _found(value: Any, way: tuple[Any, ...]) -> Iterator[Any]:
    places: Iterable[Any] = (value,)
    for step in way:
        places = [entry for place in places for entry in _entries(place, step)][:_MOST_PLACES]
    yield from places


def _entries(place: Any, step: Any) -> Iterable[Any]:
    if step is ALL:
        if isinstance(place, list):
            return place
        return place.values() if isinstance(place, dict) else ()
    if isinstance(step, int):
        is_there = isinstance(place, list) and -len(place) <= step < len(place)
        return (place[step],) if is_there else ()
    return (place[step],) if isinstance(place, dict) and step in place else ()


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else type(value).__name__
