"""Reads lines of a stream, many at a time, and takes nothing but their line feeds away.

Law: a line that is held is bounded, because a file without line feeds is one line of any size.
"""

from __future__ import annotations

import os
import select
import stat
import sys
from typing import BinaryIO

_READ_BYTES = 1024 * 1024
_MAX_LINE_BYTES = 100 * 1024 * 1024  # Kafka's default of socket.request.max.bytes


class LineSource:
    """Reads the lines that are there; `is_ended` once the stream has ended."""

    def __init__(self, stream: BinaryIO, max_line_bytes: int = _MAX_LINE_BYTES) -> None:
        """Nothing else may have read from the stream: what that has buffered would be lost."""
        self.max_line_bytes = max_line_bytes
        self._descriptor = stream.fileno()
        self._begun: list[bytes] = []  # of a line whose end has not come
        self._begun_bytes = 0
        self._is_skipping = False  # the rest of a line that was too long
        self.begins_too_long = False  # the first line of the last `read` is none, it was too long
        self.is_ended = False

    def fileno(self) -> int:
        return self._descriptor

    def read(self) -> list[bytes]:
        """Return the lines that have ended since; at the end of the stream, also a last one without
        a line feed. A line that is too long becomes empty: see `begins_too_long`.
        """
        self.begins_too_long = False
        chunk = os.read(self._descriptor, _READ_BYTES)
        if not chunk:
            self.is_ended = True
            rest = self._taken()
            return [rest] if rest else []
        first, feed, others = chunk.partition(b"\n")
        if self._is_skipping:
            self._is_skipping = not feed
            lines = []
        else:
            self._begun.append(first)
            self._begun_bytes += len(first)
            if self._begun_bytes > self.max_line_bytes:
                self._begun, self._begun_bytes = [], 0
                self.begins_too_long, self._is_skipping = True, not feed
                lines = [b""]
            else:
                lines = [self._taken()] if feed else []
        if feed:
            lines += others.split(b"\n")
            last = lines.pop()
            self._begun, self._begun_bytes = ([last] if last else []), len(last)
        return lines

    def unread(self) -> str | None:
        """Return words about the rest of the stream; None if there is none. This may take a byte
        from a pipe, so `read` is not called after it.
        """
        if self.is_ended or os.isatty(self._descriptor):
            return None
        found = os.fstat(self._descriptor)
        if stat.S_ISREG(found.st_mode):
            at = os.lseek(self._descriptor, 0, os.SEEK_CUR) - self._begun_bytes
            left = found.st_size - at
            return f"{left:,} bytes of the input were not read" if left > 0 else None
        if select.select([self._descriptor], [], [], 0)[0] and not os.read(self._descriptor, 1):
            self.is_ended = True
            if not self._begun_bytes:
                return None
        return "what comes after them was not read"

    def _taken(self) -> bytes:
        line = b"".join(self._begun)
        self._begun, self._begun_bytes = [], 0
        return line


class PromptedSource(LineSource):
    """Lines that a person types, each after a `>` on standard output."""

    def __init__(self, stream: BinaryIO, max_line_bytes: int = _MAX_LINE_BYTES) -> None:
        super().__init__(stream, max_line_bytes)
        _ask(1)

    def read(self) -> list[bytes]:
        lines = super().read()
        if not self.is_ended:
            _ask(len(lines))
        return lines


def _ask(times: int) -> None:
    sys.stdout.write(">" * times)
    sys.stdout.flush()
