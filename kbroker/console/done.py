"""Done: the outcome of changes, in sentences for a person. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The outcome of changes: sentences about what was done, and about what was refused."""

    said: tuple[str, ...]
    refused: tuple[str, ...]
