"""Answers that are kept as bytes, by what was asked, until something changes.

Pure. Law: what is kept takes a bounded number of bytes, the oldest goes first, and a change forgets
all of it: who asks after a change never gets an answer from before.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

MOST_BYTES = 4 * 1024 * 1024  # questions and answers
LARGEST_BYTES = MOST_BYTES // 4


class Asked(NamedTuple):
    """A request, and what an answer depends on beside it: how the client has reached this broker,
    and by which rules it may see something (None: everybody sees all).

    `body` is the message as it was sent.
    """

    version: int
    listener_name: str
    local_host: str
    local_port: int
    body: bytes
    rules: Hashable = None


class KeptAnswers:
    """Owned by the event loop."""

    __slots__ = ("_answers", "_bytes", "find", "since")

    def __init__(self) -> None:
        self._answers: dict[Asked, bytes] = {}  # oldest first
        self._bytes = 0
        self.since: object = object()  # the last change, whichever it was
        self.find = self._answers.get  # None for what is not kept

    def keep(self, asked: Asked, answer: bytes, since: object) -> None:
        """Keep an answer that was begun when `since` stood for the last change."""
        size_bytes = len(asked.body) + len(answer)
        if since is not self.since or size_bytes > LARGEST_BYTES or asked in self._answers:
            return
        while self._bytes + size_bytes > MOST_BYTES:
            oldest = next(iter(self._answers))
            self._bytes -= len(oldest.body) + len(self._answers.pop(oldest))
        self._answers[asked] = answer
        self._bytes += size_bytes

    def forget(self) -> None:
        """Let all of it go, as something has changed."""
        self.since = object()
        self._answers.clear()
        self._bytes = 0
