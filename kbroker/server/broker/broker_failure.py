"""The reason why a broker cannot go on, for all who have to know: waiting callers, its owner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.server.start_error import StartError


class BrokerFailure:
    """One broker's. Owned by the event loop."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.error: StartError | LogDirectoryError | None = None
        self._listeners: list[Callable[[], None]] = []

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever something is reported."""
        self._listeners.append(listener)

    def report(self, error: StartError | LogDirectoryError) -> None:
        """The broker cannot go on; the first error counts."""
        self.error = self.error or error
        self.event.set()
        for listener in self._listeners:
            listener()
