"""Writes the lines of a broker's log; one that is the same as the line before it is counted.

Law: nothing is lost of it but the moments: the next other line is preceded by one that says how
often the last one came, and so is the same line after a minute, and the end of the log.
"""

from __future__ import annotations

import logging
from typing import TextIO

from kbroker.line_fields import fields_of

COUNTED_FOR_S = 60.0
_Line = tuple[str, int, str]  # logger, level, message


class CountingHandler(logging.StreamHandler[TextIO]):
    """Used by all threads, under the lock that every handler has."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._last: _Line | None = None
        self._since_s = 0.0
        self._repeats = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or count it."""
        try:
            line = (record.name, record.levelno, record.getMessage())
        except Exception:  # a line that does not fit its values must not end whoever writes it
            self.handleError(record)
            return
        is_young = record.created - self._since_s < COUNTED_FOR_S
        if line == self._last and is_young and record.exc_info is None:
            self._repeats += 1
            return
        self._write_repeats()
        self._last, self._since_s = line, record.created
        super().emit(record)

    def close(self) -> None:
        """Write the count that is left."""
        self._write_repeats()
        super().close()

    def _write_repeats(self) -> None:
        count, self._repeats = self._repeats, 0
        if not count or self._last is None:
            return
        name, level, _ = self._last
        text = "the line before came %s more times"
        values = {
            "name": name,
            "levelno": level,
            "levelname": logging.getLevelName(level),
            "msg": text,
            "args": (f"{count:,}",),
            **fields_of("line_repeated", count=count),
        }
        super().emit(logging.makeLogRecord(values))
