"""Finding: a fault with what was seen, what it means and what mends it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How much a finding matters: an error keeps clients from working, a warning may, and a note is
    a choice that surprises people.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault of one subject; `code` is the name that scripts look for."""

    code: str
    severity: Severity
    subject: str
    seen: str
    means: str
    mends: str
