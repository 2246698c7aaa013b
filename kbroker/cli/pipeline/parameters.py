"""Options that several jobs have, and types: names, directories, pairs, sizes, dates."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from kbroker.cli.records.produce import CODECS
from kbroker.cli.shown.output import options
from kbroker.client.moments import is_relative, timestamp_ms

written_options = options(
    click.option(
        "--replication-factor", type=int, default=-1, metavar="N",
        help="Replicas of new topics (default: the cluster's).",
    ),
    click.option(
        "--compression", type=click.Choice(CODECS), default="lz4", show_default=True,
        help="For the batches that are made.",
    ),
)  # fmt: skip


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
    if not str(text).strip():
        raise click.BadParameter(f"'{text}' is empty: give a directory")
    return str(text)


def pair(text: str) -> tuple[str, str]:
    """Key and value of `KEY=VALUE`; the value may hold further signs `=`."""
    key, sign, value = str(text).partition("=")
    if not sign or not key.strip():
        raise click.BadParameter(f"'{text}' is not KEY=VALUE")
    return (key.strip(), value)


def size(text: str) -> int:
    """Bytes of `256MB`, `64kB` or `1GB`."""
    matched = re.fullmatch(r"(\d+)\s*(k|M|G)B", str(text).strip())
    if matched is None or int(matched[1]) == 0:
        raise click.BadParameter(f"'{text}' is not a size such as 64kB, 256MB or 1GB")
    return int(matched[1]) << (10 + 10 * "kMG".index(matched[2]))


def date_ms(text: str) -> int:
    """Unix ms of a date; no time ago, which is another each time."""
    found = None if is_relative(str(text)) else timestamp_ms(str(text), 0)
    if found is None:
        raise click.BadParameter(f"'{text}' is not a date such as 2026-11-21T10:00:00")
    return found


def number(text: str) -> int:
    """The number of a partition."""
    if not str(text).strip().isdecimal():
        raise click.BadParameter(f"'{text}' is not the number of a partition")
    return int(text)


def numbers(text: str | Sequence[object]) -> tuple[int, ...]:
    """The numbers of partitions in `0,1`; a configuration file may have a list."""
    parts = names(text) if isinstance(text, str) else [str(part) for part in text]
    return tuple(map(number, parts))
