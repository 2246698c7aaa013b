"""Settings as numbers. Pure."""

from __future__ import annotations

from collections.abc import Mapping


def number_of(settings: Mapping[str, str], name: str) -> int | None:
    """Return a setting as a number; None if it is not there or not a number."""
    try:
        return int(settings[name])
    except (KeyError, ValueError):
        return None
