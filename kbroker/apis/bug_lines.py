"""Bugs that were answered with UNKNOWN_SERVER_ERROR, in the log: once per place and minute."""

from __future__ import annotations

import logging

from kbroker.apis.served_api import Served
from kbroker.clock import Clock
from kbroker.errors import ErrorCode
from kbroker.line_fields import fields_of
from kbroker.rare_lines import RareLines

_log = logging.getLogger(__name__)


class BugLines:
    """Owned by the event loop."""

    __slots__ = ("_clock", "_lines")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines = RareLines()

    def tell(self, served: Served, error: Exception) -> None:
        """Log the bug that ended a request, with its traceback."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = type(error).__name__, trace.tb_lineno if trace is not None else 0
        if self._lines.left_out(place, served.name, self._clock.monotonic_ms()) is not None:
            _log.error(
                "%s v%d was answered with UNKNOWN_SERVER_ERROR",
                served.name,
                served.version,
                exc_info=error,
                extra=fields_of(
                    "bug",
                    api=served.name,
                    version=served.version,
                    code=ErrorCode.UNKNOWN_SERVER_ERROR.name,
                ),
            )
