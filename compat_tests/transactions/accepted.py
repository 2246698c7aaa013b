"""Where kbroker answers otherwise than the Apache Kafka it follows, and why; everything else is a
difference to be mended.

Law: with `transaction.version` below 2 kbroker follows 3.9.2, and 4.3.1 where 3.9.2 does not serve a
request; at 2 it follows 4.3.1. An entry that explains nothing any more is a fault, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from compat_tests.transactions.script import NOT_SERVED, Answers


class Accepted(NamedTuple):
    """Steps of sequences that may be answered otherwise, with what is answered instead."""

    title: str
    step: str
    own: str
    why: str


ACCEPTED: tuple[Accepted, ...] = ()


class Difference(NamedTuple):
    """One step that was answered otherwise."""

    title: str
    step: str
    own: str
    expected: str

    def __str__(self) -> str:
        return f"{self.step}: {self.own}, Apache {self.expected}"


def differences(
    title: str, own: Answers, followed: Mapping[str, Answers], newer: Mapping[str, Answers]
) -> Iterator[Difference]:
    """Yield the steps that were answered otherwise. A sequence that no broker has a recording of differs in nothing."""
    for index, (step, answer) in enumerate(own):
        expected = _answer(followed, title, index, step)
        if expected in (None, NOT_SERVED):
            expected = _answer(newer, title, index, step)
        if expected not in (None, answer):
            yield Difference(title, step, answer, str(expected))


def _answer(side: Mapping[str, Answers], title: str, index: int, step: str) -> str | None:
    answers = side.get(title, ())
    if index >= len(answers):
        return None
    assert answers[index][0] == step, f"{title}: record again, {answers[index][0]!r} is {step!r}"
    return answers[index][1]


def reason(difference: Difference) -> Accepted | None:
    """The entry that explains a difference."""
    return next(
        (
            entry
            for entry in ACCEPTED
            if re.fullmatch(entry.title, difference.title)
            and re.fullmatch(entry.step, difference.step)
            and re.fullmatch(entry.own, difference.own)
        ),
        None,
    )
