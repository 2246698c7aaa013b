"""Batches that cannot be read: a command that reads records names them and goes on, and its exit
code says that some are missing.
"""

from __future__ import annotations

from collections.abc import Callable

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.shown.output import counted
from kbroker.client.exit_code import ExitCode

_NAMED_MAX = 20


class Unreadable:
    """Counts them in one run; `say` gets each sentence."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._count = 0

    def tell(self, sentence: str) -> None:
        """A batch, by partition and offsets, and why it cannot be read."""
        self._count += 1
        if self._count <= _NAMED_MAX:
            self._say(sentence)

    def refuse_if_any(self) -> None:
        """CommandError if there was one."""
        if self._count:
            batches = counted(self._count, "batch")
            raise CommandError(f"{batches} could not be read", ExitCode.ITEM_FAILED)
