"""Options of jobs that write records of others into topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from kbroker.cli.records.produce import CODECS

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def written_options(command: CommandT) -> CommandT:
    """Replicas of the topics that are made, and the codec of the batches."""
    for option in reversed(
        [
            click.option(
                "--replication-factor", type=int, default=-1, metavar="N",
                help="Replicas of new topics (default: the cluster's).",
            ),
            click.option(
                "--compression", type=click.Choice(CODECS), default="lz4", show_default=True,
                help="For the batches that are made.",
            ),
        ]
    ):  # fmt: skip
        command = option(command)
    return command
