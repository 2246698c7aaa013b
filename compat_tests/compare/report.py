"""What a comparison found, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from compat_tests.compare.comparing import Difference, KeyResult


def progress(result: KeyResult) -> str:
    """`Fetch: 1200 answers, 3 differ, 10 more as accepted`."""
    rest = len(result.unexplained)
    more = len(result.differences) - rest
    accepted = f", {more} more as accepted" if more else ""
    missing = f"; not asked: {result.not_asked}" if result.not_asked else ""
    return (
        f"{result.key}: {result.answers} answers, {rest or 'no'} fields differ{accepted}{missing}"
    )


def as_text(result: KeyResult, *, everything: bool = False) -> Iterator[str]:
    """A line for each request that is answered otherwise, and below it one for each field."""
    shown = result.differences if everything else result.unexplained
    for question, fields in groupby(shown, key=lambda each: each.question):
        key = f"{question.key} {question.version}".strip()
        yield f"{key}: {question.asked}"
        for each in fields:
            why = f"  ({each.why})" if each.why else ""
            yield f"  {each.path}: {each.a} | {each.b}{why}"


def summary(a: str, b: str, results: list[KeyResult]) -> str:
    """The last line."""
    differing = sum(len(result.unexplained) for result in results)
    accepted = sum(len(result.differences) for result in results) - differing
    answers = sum(result.answers for result in results)
    return (
        f"{a} | {b}: {answers} answers, {differing} fields differ beyond the written list, "
        f"{accepted} as in it"
    )


def as_json(a: str, b: str, results: list[KeyResult]) -> str:
    """All differences; `why` is null where nothing explains one."""
    found = {
        "a": a,
        "b": b,
        "answers": {result.key: result.answers for result in results},
        "differences": [_row(each) for result in results for each in result.differences],
        "not_asked": {result.key: result.not_asked for result in results if result.not_asked},
    }
    return json.dumps(found, indent=2)


def _row(each: Difference) -> dict[str, Any]:
    values = {"path": each.path, "a": each.a, "b": each.b, "why": each.why}
    return {**each.question._asdict(), **values}
