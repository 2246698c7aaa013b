"""The lines of a broker's log: text for people, JSON for programs.

Law: whatever clients call themselves, a line stays one line and controls no terminal. Text has
everything that is not printable escaped, lines of a traceback are indented; JSON is ASCII.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from kbroker.line_fields import ATTRIBUTE

_INDENT = "    "
_LEVELS = {"CRITICAL": "error"}


class TextFormatter(logging.Formatter):
    """Lines for people: time, level, part of the broker, and what it has to say."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        record.message = inert(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802  # logging's name
        lines = super().formatException(ei).splitlines()
        return "\n".join(_INDENT + inert(line) for line in lines)


class JsonFormatter(logging.Formatter):
    """Lines for programs: an object with `ts` (UTC), `level`, `message`, `logger`, what the line
    has of `line_fields`, and the traceback as `exception`.
    """

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        level = record.levelname
        line: dict[str, str | int] = {
            "ts": f"{seconds}.{int(record.msecs):03d}Z",
            "level": _LEVELS.get(level, level.lower()),
            "logger": record.name,
            "message": inert(record.getMessage()),
        }
        for name, value in getattr(record, ATTRIBUTE, {}).items():
            line[name] = _encodable(value) if isinstance(value, str) else value
        if record.exc_info:
            line["exception"] = _encodable(self.formatException(record.exc_info))
        return json.dumps(line)


def inert(text: str) -> str:
    r"""Return a text with everything escaped that is not printable, for instance line ends and
    what moves a terminal's cursor.

    >>> print(inert("a\x1b[2Jb\n"))
    a\x1b[2Jb\n
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _encodable(text: str) -> str:
    """Half characters, as bytes that were no UTF-8 leave them, are no JSON."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
