"""One table of a TOML file, read key by key; a wrong key or value is refused in one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from kbroker.near_names import did_you_mean
from kbroker.pipeline.errors import ExitCode, PipelineError

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNIT_US = {
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_T = TypeVar("_T")


class TomlTable:
    """A table; `place` begins each sentence, such as `rules.toml, [rules.errors]`."""

    def __init__(self, place: str, values: Any, known: Iterable[str] | None = None) -> None:
        """Raise PipelineError for a value that is not a table, and for unknown keys."""
        self.place = place
        if not isinstance(values, dict):
            raise self.refusal("is a table, and not a single value")
        self.values: Mapping[str, Any] = values
        if known is not None:
            self._check_keys(sorted(known))

    def refusal(self, sentence: str) -> PipelineError:
        return PipelineError(f"{self.place} {sentence}", ExitCode.USAGE)

    def _check_keys(self, known: list[str]) -> None:
        for key in self.values:
            if key not in known:
                hint = did_you_mean(key, known, shown=1) or f": known are {', '.join(known)}"
                raise self.refusal(f"has no key {key}{hint}")

    def tables(self, key: str, known: Iterable[str]) -> dict[str, TomlTable]:
        """Return the tables below a key, by their names, which are names for SQL too."""
        inner = TomlTable(f"{self.place}, [{key}]", self.values.get(key, {}))
        known = tuple(known)
        found = {}
        for name, values in inner.values.items():
            if not _NAME.fullmatch(name):
                raise inner.refusal(f"has {name!r}: a name is letters, digits and _")
            place = f"{self.place.partition(',')[0]}, [{key}.{name}]"
            found[name] = TomlTable(place, values, known)
        return found

    def text(self, key: str) -> str | None:
        """Return a text that is not empty; None if there is none."""
        return self._typed(key, str, "a text")

    def needed(self, key: str, example: str) -> str:
        """Return a text, refused if it is missing."""
        found = self.text(key)
        if found is None:
            raise self.refusal(f"needs {key}, such as {key} = {example}")
        return found

    def texts(self, key: str) -> tuple[str, ...]:
        """Return one text or a list of them."""
        value = self.values.get(key, [])
        found = [value] if isinstance(value, str) else value
        if not isinstance(found, list) or not all(isinstance(each, str) and each for each in found):
            raise self.refusal(f"has {key} = {value!r}: give a text, or a list of texts")
        return tuple(found)

    def expressions(self, key: str) -> dict[str, str]:
        """Return a table of SQL; a number stands for itself."""
        inner = TomlTable(f"{self.place}, {key}", self.values.get(key, {}))
        found = {}
        for name, value in inner.values.items():
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise inner.refusal(f"has {name} = {value!r}: give SQL as text, or a number")
            found[name] = str(value)
        return found

    def number(self, key: str, default: float) -> float:
        """Return a number, or the default."""
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refusal(f"has {key} = {value!r}: give a number")
        return value

    def count(self, key: str) -> int | None:
        """Return a whole number from 1 on; None if there is none."""
        value = self.values.get(key)
        if value is not None and (type(value) is not int or value < 1):
            raise self.refusal(f"has {key} = {value!r}: give a whole number from 1 on")
        return value

    def duration_us(self, key: str) -> int | None:
        """Return the microseconds of `10s`; None if there is none."""
        text = self._typed(key, str, 'a text such as "30s"')
        if text is None:
            return None
        found = _DURATION.fullmatch(text)
        if found is None:
            raise self.refusal(
                f"has {key} = {text!r}, which is not a duration such as 500ms, 30s, 5m or 1h"
            )
        return round(float(found[1]) * _UNIT_US[found[2]])

    def one_of(self, name: str, known: Iterable[str], what: str) -> str:
        """Return the name if it is known, else refuse it with the nearest one."""
        names = list(known)
        if name not in names:
            hint = did_you_mean(name, names, shown=1) or (
                f": there are {', '.join(names)}" if names else ": there is none"
            )
            raise self.refusal(f"names the {what} {name}, which is not there{hint}")
        return name

    def _typed(self, key: str, kind: type[_T], words: str) -> _T | None:
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, kind) or value == "":
            raise self.refusal(f"has {key} = {value!r}: give {words}")
        return value
