"""Faults of a file of a log directory, how bad they are, and what comes of them. Values only.

error    data is at risk: records are lost, unreadable, or would be served wrongly
warning  the next start of a broker repairs it
info     worth knowing
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum, StrEnum, auto
from typing import Any, Self

_SHOWN_PER_KIND = 3  # of one kind in one file: a spoiled index would have a million of them


class Severity(IntEnum):
    """How bad a finding is; the worst is the largest."""

    INFO = 0
    WARNING = 1
    ERROR = 2


class FindingKind(StrEnum):
    """The kind of a finding; its tables are `FindingCode`, of log directories, and the
    pipeline's `AuditCode`. Programs read the value: `batch-crc` of a member BATCH_CRC.
    """

    worst: Severity  # a place or a reason may make a finding milder
    meaning: str
    advice: str  # empty if the place of what was found decides

    def __new__(cls, name: str, worst: Severity, meaning: str, advice: str = "") -> Self:
        code = name.replace("_", "-")
        member = str.__new__(cls, code)
        member._value_ = code
        member.worst = worst
        member.meaning = meaning
        member.advice = advice
        return member

    def finding(
        self,
        path: str,
        what: str,
        advice: str | None = None,
        *,
        offset: int | None = None,
        position: int | None = None,
        severity: Severity | None = None,
    ) -> Finding:
        """Return a finding of this kind, as severe as it can be and with the advice of its kind
        unless others are given.
        """
        assert severity is None or severity <= self.worst, (self, severity)
        return Finding(
            self.worst if severity is None else severity,
            self,
            path,
            what,
            self.advice if advice is None else advice,
            position,
            offset,
        )


def error(meaning: str, advice: str = "") -> tuple[Any, ...]:
    """A member of a `FindingKind`: its code is its name, its findings are errors at worst."""
    return auto(), Severity.ERROR, meaning, advice


def warning(meaning: str, advice: str = "") -> tuple[Any, ...]:
    """A member whose findings are warnings at worst."""
    return auto(), Severity.WARNING, meaning, advice


def info(meaning: str, advice: str = "") -> tuple[Any, ...]:
    """A member whose findings are notes."""
    return auto(), Severity.INFO, meaning, advice


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found, in words."""

    severity: Severity
    code: FindingKind
    path: str
    what: str
    advice: str  # what will happen, or what to do
    position: int | None = None  # bytes from the start of the file
    offset: int | None = None


class Findings:
    """Gathers findings; of many alike in one file it keeps the first, and how many more there
    were.
    """

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._counts: Counter[tuple[str, FindingKind]] = Counter()
        self._last: dict[tuple[str, FindingKind], Finding] = {}

    def add(self, finding: Finding) -> None:
        """Keep a finding, or count it if there are many alike."""
        kind = (finding.path, finding.code)
        self._counts[kind] += 1
        if self._counts[kind] <= _SHOWN_PER_KIND:
            self._kept.append(finding)
        else:
            self._last[kind] = finding

    def take(self, other: Findings) -> None:
        """Take in the findings on other files."""
        self._kept += other._kept
        self._counts += other._counts
        self._last |= other._last

    def all(self) -> list[Finding]:
        """Return the findings in order, then how many alike were left out."""
        left_out = [
            Finding(
                finding.severity,
                finding.code,
                finding.path,
                f"{self._counts[kind] - _SHOWN_PER_KIND} more of the same kind, the last one: "
                f"{finding.what}",
                finding.advice,
                finding.position,
                finding.offset,
            )
            for kind, finding in self._last.items()
        ]
        return self._kept + left_out

    @property
    def worst(self) -> Severity | None:
        """None if nothing was found."""
        return max((finding.severity for finding in self._kept), default=None)
