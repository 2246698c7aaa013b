"""Types of options that jobs have: lists of names, directories, pairs `KEY=VALUE`."""

from __future__ import annotations

from collections.abc import Sequence

import click


def names(text: str | Sequence[str]) -> tuple[str, ...]:
    """The names in `a,b`; a configuration file may have a list."""
    parts = text.split(",") if isinstance(text, str) else [str(part) for part in text]
    return tuple(filter(None, map(str.strip, parts)))


def directory(text: str) -> str:
    """The path of a directory, there or not; no address of a store that is not a disk."""
    if "://" in str(text):
        raise click.BadParameter(
            f"'{text}' is an address: give a directory of a disk, own or mounted"
        )
    return str(text)


def pair(text: str) -> tuple[str, str]:
    """Key and value of `KEY=VALUE`; the value may hold further signs `=`."""
    key, sign, value = str(text).partition("=")
    if not sign or not key.strip():
        raise click.BadParameter(f"'{text}' is not KEY=VALUE")
    return (key.strip(), value)
