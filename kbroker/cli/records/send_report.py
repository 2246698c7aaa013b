"""SendReport: says how many of the records that were read are written, meanwhile and at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.shown.output import counted, say
from kbroker.cli.shown.terminal_line import TerminalLine
from kbroker.client.client_error import ClientError
from kbroker.client.record_sender import RecordSender
from kbroker.errors import KafkaError, Trouble, trouble_of

_FIRST_SHOWN_S = 0.5


class SendReport:
    """Reports on one sender; its owner counts up `read`."""

    def __init__(self, sender: RecordSender, topic: str, *, is_silent: bool = False) -> None:
        """`is_silent`: nothing is said before the end."""
        self.read = 0  # records
        self._sender, self._topic, self._is_silent = sender, topic, is_silent
        stream = sys.stderr
        self._line = TerminalLine(stream, time.monotonic() + _FIRST_SHOWN_S, plain_interval_s=None)

    @contextmanager
    def watched(self, unread: Callable[[], str | None] = lambda: None) -> Iterator[None]:
        """Wrap the sending: raises CommandError if records were not written, and says after an
        interrupt how many were. `unread` says what was not even read.
        """
        try:
            yield
        except KeyboardInterrupt:
            self._line.end()
            more = ", others may or may not be" if self._sender.uncertain else ""
            say(f"interrupted: {self._acknowledged()} written to {self._topic}{more}")
            raise
        except (ClientError, KafkaError, OSError) as error:
            raise self._failure(str(error), unread(), trouble_of(error)) from error
        finally:
            self._line.end()
        if self._sender.refusal is not None:
            raise self._failure(self._sender.refusal, unread())

    def show(self) -> None:
        """Show the progress now and then."""
        now_s = time.monotonic()
        if not self._is_silent and self._line.is_due(now_s):
            self._line.show(self._acknowledged(), now_s)

    def _acknowledged(self) -> str:
        return f"{self._sender.acknowledged:,} of {counted(self.read, 'record')}"

    def _failure(
        self, reason: str, unread: str | None, trouble: Trouble | None = None
    ) -> CommandError:
        uncertain = self._sender.uncertain
        missing = self.read - self._sender.acknowledged - uncertain
        said = f"{missing or uncertain:,} of {counted(self.read, 'record')}"
        if missing:
            said += f" {'was' if missing == 1 else 'were'} not written"
            said += f", {uncertain:,} may or may not be written" if uncertain else ""
        else:
            said += " may or may not be written"
        said += "" if unread is None else f", and {unread}"
        return CommandError(
            f"{said}: {reason}",
            ExitCode.ITEM_FAILED,
            trouble,
        )
