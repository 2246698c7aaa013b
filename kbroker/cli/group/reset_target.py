"""The target of `kbroker group reset`: reads `--to` and `--topic`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import click

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.client.reset_targets import TARGETS, Target, offsets_in, target_named
from kbroker.model import TopicPartition

_FROM_FILE = "file:"
ALL: Final[frozenset[int]] = frozenset()  # partitions of a topic


def parse_target(text: str, now_ms: int) -> Target:
    """Return the target that `--to` names. UsageError if it is none."""
    if text.startswith(_FROM_FILE):
        return Target(of_file=_read_file(text.removeprefix(_FROM_FILE)))
    target = target_named(text, now_ms)
    if target is None:
        raise click.UsageError(f"--to '{text}' is none of: {TARGETS}, file:PATH")
    return target


def parse_topics(texts: Iterable[str]) -> dict[str, frozenset[int]]:
    """Return the partitions that `--topic` names, by topic; an empty set means all. Raises
    UsageError.
    """
    wanted: dict[str, frozenset[int]] = {}
    for text in texts:
        name, colon, numbers = text.partition(":")
        try:
            partitions = frozenset(int(number) for number in numbers.split(",")) if colon else ALL
        except ValueError:
            name = ""
        if not name:
            raise click.UsageError(f"--topic '{text}' is not TOPIC or TOPIC:0,1")
        known = wanted.get(name, partitions)
        wanted[name] = known | partitions if known and partitions else ALL
    return wanted


def _read_file(path: str) -> dict[TopicPartition, int]:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return offsets_in(file)
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}", ExitCode.USAGE) from error
    except ValueError as error:
        raise CommandError(f"cannot use {path}: {error}", ExitCode.USAGE) from error
