"""The ways to choose topics for a job; apart from streams, whose imports a mirror does not need."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kbroker.pipeline.errors import OptionsError


def check_choice(topics: Sequence[str], pattern: str | None) -> None:
    """Raises OptionsError unless topics are chosen in one way."""
    if topics and pattern:
        raise OptionsError("--topics and --pattern exclude each other")
    if not topics and not pattern:
        raise OptionsError("say which topics: --topics A,B or --pattern REGEX")
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise OptionsError(f"--pattern '{pattern}' is not a regular expression: {error}") from error
