"""Large answers, which leave in pieces, as fast as their readers take them.

Law: no more than some MiB of them are on their way at once, so that readers who are slow, or take
nothing, cost no more memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

from kbroker.console.web.web_request import RefusedError
from kbroker.http.answers import Answer

LARGE_BYTES: Final = 256 * 1024
MOST_BYTES: Final = 64 * 1024 * 1024
_PIECE_BYTES: Final = 64 * 1024


class LargeAnswers:
    """The large answers that are on their way. Owned by the loop of the web server."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self.taken_bytes = 0

    def in_pieces(self, answer: Answer) -> Answer:
        """Return an answer that leaves in pieces if it is large; it must be sent then. One is let
        through however large it is. Raises RefusedError if others take too much.
        """
        count = len(answer.body)
        if count < LARGE_BYTES:
            return answer
        if self.taken_bytes and self.taken_bytes + count > self._most_bytes:
            raise RefusedError(503, "too many large answers are on their way: try again")
        length = ("content-length", str(count))
        pieces = _Pieces(answer.body, self)
        return replace(answer, body=b"", pieces=pieces, headers=(length, *answer.headers))


class _Pieces:
    """The pieces of a body, which counts until it is sent or its reader has gone."""

    def __init__(self, body: bytes, answers: LargeAnswers) -> None:
        self._body = body
        self._answers = answers
        answers.taken_bytes += len(body)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._body), _PIECE_BYTES):
            yield self._body[at : at + _PIECE_BYTES]

    async def aclose(self) -> None:
        """Count the body no more."""
        self._answers.taken_bytes -= len(self._body)
        self._body = b""
