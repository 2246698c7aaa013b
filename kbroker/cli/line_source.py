"""Lines of a stream, many at a time and as they are: nothing but the line feed is taken away."""

from __future__ import annotations

import os
from typing import BinaryIO

_READ_BYTES = 1024 * 1024


class LineSource:
    """Reads what is there; `is_ended` once the stream has."""

    def __init__(self, stream: BinaryIO) -> None:
        """Nothing else reads the stream: what it holds back itself would be lost."""
        self._descriptor = stream.fileno()
        self._begun: list[bytes] = []  # of a line whose end has not come
        self.is_ended = False

    def fileno(self) -> int:
        """For `select`: readable when `read` does not wait."""
        return self._descriptor

    def read(self) -> list[bytes]:
        """The lines that have ended since; at the end of the stream, what has no line feed too."""
        chunk = os.read(self._descriptor, _READ_BYTES)
        if not chunk:
            self.is_ended = True
            rest, self._begun = b"".join(self._begun), []
            return [rest] if rest else []
        first, feed, others = chunk.partition(b"\n")
        self._begun.append(first)
        if not feed:
            return []
        lines = others.split(b"\n")
        last = lines.pop()
        lines.insert(0, b"".join(self._begun))
        self._begun = [last] if last else []
        return lines
