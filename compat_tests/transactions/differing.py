"""Where kbroker answers a sequence otherwise than the Apache Kafka it follows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from compat_tests.answers.accepted import SEQUENCES, Accepted
from compat_tests.answers.accepted import reason as reason_in
from compat_tests.transactions.script import NOT_SERVED, Answers


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


def reason(difference: Difference, level: int) -> Accepted | None:
    """The entry that explains a difference at a level of `transaction.version`."""
    here = tuple(entry for entry in SEQUENCES if level in entry.levels)
    return reason_in(here, f"{difference.title}: {difference.step}", "answer", difference.own)
