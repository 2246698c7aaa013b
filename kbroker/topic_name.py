"""The names that a topic may have: they become directory names. Pure."""

from __future__ import annotations

import re

MAX_NAME_LENGTH = 249  # "<topic>-<partition>.<id>-delete" is a directory name: at most 255 bytes
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def is_valid_topic_name(name: str) -> bool:
    """True for 1 to 249 of `a-z A-Z 0-9 . _ -`, but not "." or ".."."""
    return topic_name_fault(name) is None


def topic_name_fault(name: str) -> str | None:
    """The reason why a name cannot be a topic's, in Kafka's words; None if it can."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return (
            f"'{name}' contains one or more characters "
            "other than ASCII alphanumerics, '.', '_' and '-'"
        )
    return None
