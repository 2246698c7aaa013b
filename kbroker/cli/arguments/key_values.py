"""Settings as options give them."""

from __future__ import annotations

from collections.abc import Iterable

import click


def key_values(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Read settings from the `KEY=VALUE` texts of an option. UsageError for any other text."""
    pairs = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise click.UsageError(f"{option} '{text}' is not KEY=VALUE")
        pairs[key] = value
    return pairs
