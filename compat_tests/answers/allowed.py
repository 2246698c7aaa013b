"""What kbroker answers otherwise than both Apache brokers, and why; everything else is a difference to
be mended.

Law: an answer is as it should be when 3.9.2 or 4.3.1 gives the same. Where neither does, each field
that differs from one of them must be named here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from compat_tests.answers.asking import Answer, differences


class Allowance(NamedTuple):
    """Fields that may differ in answers to such questions."""

    label: str
    path: str
    why: str


ALLOWED = (
    Allowance(
        r"isolation_level=",
        r"",
        "42 says what is wrong with the request; Apache: -1, its own fault",
    ),
    Allowance(
        r"fetch with .*max_bytes=-",
        r"",
        "less than nothing counts as 0: the first batch; Apache: -1",
    ),
    Allowance(
        r"^(fetch with session_id=|session (2147483647|-1|-2147483648) epoch)",
        r"",
        "no session has such an id: 70, or an answer without one; Apache: -1, no shard has it",
    ),
    Allowance(
        r"^offsets: .* v1[01]$",
        r"\.topics",
        "as 3.9.2 for a partition named twice: each is refused",
    ),
    Allowance(
        r"^metadata of no name", r"\.(brokers|error_code)", "the brokers are told all the same"
    ),
    Allowance(r"^api versions", r"\.(api_keys|finalized|supported)", "what each of them serves"),
    Allowance(r"^old offsets of .*, -1 v0", r"", "fewer than none: none; Apache: -1"),
    Allowance(
        r"^old offsets of '\w*' at [0-9]+, [0-9]",
        r"",
        "segments by the times of their records; Apache: by when their files were written",
    ),
    Allowance(
        r"^deletion ", r"\.aborted_transactions$", "empty or null: neither has a transaction"
    ),
)
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
        if (mine, theirs) == _RESTART:
            continue
        if not any(re.search(a.label, label) and re.search(a.path, path) for a in ALLOWED):
            yield path, mine, theirs
