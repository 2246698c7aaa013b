"""Asks two brokers the same and tells what differs, key by key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from compat_tests.answers.accepted import ANSWERS, OF_TWO_BROKERS, SEQUENCES, Accepted, reason
from compat_tests.answers.asking import Answer, Caller, StoppedError, Target
from compat_tests.answers.normal import differences
from compat_tests.compare.brokers import APACHE, KBROKER, ranges_of_both
from compat_tests.compare.keys import NOT_ASKED, asks_of, has_questions, key_name
from compat_tests.transactions.runner import run_all
from compat_tests.transactions.script import NOT_SERVED, Sequence, all_sequences
from compat_tests.transactions.sides import level
from compat_tests.wire.wire_client import served

TRANSACTIONS = "Transactions"  # sequences of several keys
_HEEDED_EVERY_S = 0.2
_VERSION = re.compile(r"(?P<asked>.*) v(?P<version>\d+)$", re.DOTALL)


class Question(NamedTuple):
    """What was asked: the key's name, its version where it is one request's, and in short what."""

    key: str
    version: str
    asked: str


@dataclass(frozen=True)
class Difference:
    """One field that two brokers fill otherwise; `why` where that is accepted."""

    question: Question
    path: str
    a: Any
    b: Any
    why: str | None


@dataclass
class KeyResult:
    """What a key's questions brought."""

    key: str
    answers: int = 0
    not_asked: str = ""  # what of it both serve, and why it was not compared
    differences: list[Difference] = field(default_factory=list)

    @property
    def unexplained(self) -> list[Difference]:
        return [each for each in self.differences if each.why is None]


def compared(a: Target, b: Target, only: str = "") -> Iterator[KeyResult]:
    """The results key by key. KeyboardInterrupt ends both sides before it is raised."""
    versions = ranges_of_both(a, b)
    both = served(a.bootstrap), served(b.bootstrap)
    names = a.name, b.name
    for key in sorted(both[0].keys() | both[1].keys()):
        if re.search(only, key_name(key), re.IGNORECASE):
            result = KeyResult(key_name(key))
            result.differences += _offered(names, key, both[0].get(key), both[1].get(key))
            if key in versions:
                result.not_asked = _why_not(key)
            if key in versions and not result.not_asked:
                _ask_key(result, key, versions[key], a, b)
            yield result
    if re.search(only, TRANSACTIONS, re.IGNORECASE):
        yield _sequences(a, b)


def _why_not(key: int) -> str:
    return NOT_ASKED.get(key, "") or ("" if has_questions(key) else "there are no questions for it")


Range = tuple[int, int] | None
Names = tuple[str, str]


def _offered(names: Names, key: int, a: Range, b: Range) -> Iterator[Difference]:
    """A key that only one serves; versions are no difference of their own."""
    if a is None or b is None:
        yield explained(
            names,
            f"offers {key_name(key)}",
            Question(key_name(key), "", "ApiVersions"),
            "versions",
            (_shown(a), _shown(b)),
        )


def _shown(versions: Range) -> str:
    return "not served" if versions is None else f"{versions[0]}-{versions[1]}"


def _ask_key(result: KeyResult, key: int, versions: tuple[int, int], a: Target, b: Target) -> None:
    for target in (a, b):
        target.ranges = {key: versions}
    answers = _side_by_side(_asked, key, a, b)
    for label in dict.fromkeys([*answers[0], *answers[1]]):
        matched = _VERSION.match(label)
        assert matched is not None, label
        left, right = answers[0].get(label), answers[1].get(label)
        for path, mine, theirs in differences(left, right):
            question = Question(result.key, matched["version"], matched["asked"])
            difference = explained((a.name, b.name), label, question, path, (mine, theirs))
            result.differences.append(difference)
    result.answers = len(answers[0])
    asked = {label.rpartition(" v")[2] for label in answers[0]}
    missing = [str(v) for v in range(versions[0], versions[1] + 1) if str(v) not in asked]
    if missing:
        result.not_asked = f"the codec has no version {', '.join(missing)}"


def explained(
    names: Names,
    label: str,
    question: Question,
    path: str,
    values: tuple[Any, Any],
    entries: tuple[Accepted, ...] = ANSWERS + OF_TWO_BROKERS,
) -> Difference:
    """A difference, with the reason where the list has one. Which value is kbroker's, and which
    Apache Kafka's the other, is known of brokers that were started by name; addresses may be any.
    """
    own: tuple[Any, ...] = values
    other = ""
    if KBROKER in names:
        own = tuple(value for name, value in zip(names, values, strict=True) if name == KBROKER)
        other = next((name.removeprefix(APACHE) for name in names if name != KBROKER), "")
    found = reason(entries, label, path, *own, other=other)
    return Difference(question, path, *values, found and found.why)


def _asked(key: int, target: Target) -> dict[str, Answer]:
    caller = Caller(target)
    try:
        for ask in asks_of(key):
            ask(caller)
    finally:
        caller.close()
    return caller.answers


def _side_by_side(work: Callable[..., Any], subject: Any, a: Target, b: Target) -> tuple[Any, Any]:
    with ThreadPoolExecutor(2) as pool:
        try:
            both = [pool.submit(work, subject, target) for target in (a, b)]
            # A signal that comes as a wait begins is not seen before the wait ends.
            while wait(both, _HEEDED_EVERY_S, FIRST_EXCEPTION).not_done:
                if failed := [each for each in both if each.done() and each.exception()]:
                    failed[0].result()
            return both[0].result(), both[1].result()
        except BaseException:  # also one that comes while the threads start
            for target in (a, b):
                target.stopped.set()
            raise


def _sequences(a: Target, b: Target) -> KeyResult:
    result = KeyResult(TRANSACTIONS)
    levels = level(a.bootstrap), level(b.bootstrap)
    if levels[0] != levels[1]:
        result.not_asked = f"transaction.version is {levels[0]} and {levels[1]}"
        return result
    here = tuple(entry for entry in SEQUENCES if levels[0] in entry.levels)
    wanted = [s for s in all_sequences() if not s.settings and s.level <= levels[0]]
    left, right = _side_by_side(_played, wanted, a, b)
    for title, steps in left.items():
        for (step, mine), (_, theirs) in zip(steps, right[title], strict=True):
            result.answers += 1
            if mine != theirs and NOT_SERVED not in (mine, theirs):
                label = f"{title}: {step}"
                question = Question(TRANSACTIONS, "", label)
                difference = explained(
                    (a.name, b.name), label, question, "answer", (mine, theirs), here
                )
                result.differences.append(difference)
    return result


def _played(sequences: list[Sequence], target: Target) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, sequence in enumerate(sequences):
        if target.stopped.is_set():
            raise StoppedError
        run = f"{target.names.suffix}.{number}"
        found |= run_all(target.bootstrap, [sequence], at_once=1, run=run)
    return found
