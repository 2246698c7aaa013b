"""Holds answers against those of both Apache brokers.

Law: an answer is as it should be when 3.9.2 or 4.3.1 gives the same. Where neither does, each field
that differs from one of them must be named in `ANSWERS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compat_tests.answers.accepted import ANSWERS, reason
from compat_tests.answers.asking import Answer
from compat_tests.answers.normal import differences

_RESTART = ("present+0", "present-2")  # 4.3.1 leads at a new epoch after each restart


def unexplained(
    own: dict[str, Answer], old: dict[str, Answer], new: dict[str, Answer]
) -> list[str]:
    """`question: field: own value, Apache's value` where nothing explains the difference."""
    found = []
    for label, answer in own.items():
        others = [answers[label] for answers in (old, new) if label in answers]
        rests = [list(_not_allowed(label, answer, other)) for other in others]
        if rests and all(rests):
            found += [
                f"{label}: {path}: {mine}, Apache {theirs}" for path, mine, theirs in rests[0]
            ]
    return found


def _not_allowed(label: str, own: Answer, other: Answer) -> Iterator[tuple[str, Any, Any]]:
    for path, mine, theirs in differences(own, other):
        if (mine, theirs) != _RESTART and reason(ANSWERS, label, path, mine) is None:
            yield path, mine, theirs
