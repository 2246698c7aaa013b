"""The coming answers of one connection whose requests begin before earlier ones are answered.

A producer sends several requests ahead. With acks=all each waits for followers or the disk: carried
out one after the other, each would cost a round of replication of its own, or a flush. All that
came are appended instead, and followers get them together.

Law: answers leave in the order of their requests: a client knows them by their order. So an answer
waits for earlier ones. So does the close of a connection that sent something wrong: the records
before are stored, and their producer hears so. Only requests to produce begin early: they are
appended in the order they came in, and no other kind has its place between two of them. All lines
together have a bound, for answers that come at once hold the loop; the fewer connections send
ahead, the longer each may. What a connection waits for is given up when it is gone; one that only
sends no more still reads.

Owned by the event loop.
"""

from __future__ import annotations

from collections.abc import Callable

from kbroker.errors import ProtocolError
from kbroker.protocol.request import FutureLike, NoResponse, Response

LENGTH_MAX = 64  # librdkafka sends a million ahead if it is let
TOTAL_MAX = 512  # but each connection has one

_PRODUCE = b"\0\0"

Result = Response | NoResponse | ProtocolError


class AnswerLines:
    """The bound that the lines of all connections share: how long each may be."""

    __slots__ = ("_in_use", "length_max")

    def __init__(self) -> None:
        self._in_use = 0  # lines in which an answer stands
        self.length_max = LENGTH_MAX

    def changed(self, by: int) -> None:
        """One line more is in use, or one fewer."""
        self._in_use += by
        self.length_max = max(1, min(LENGTH_MAX, TOTAL_MAX // max(1, self._in_use)))


class AnswerLine:
    """`send_next` is called, in a moment, when the first in line has come."""

    __slots__ = ("_is_closed", "_lines", "_send_next", "answers")

    def __init__(
        self, lines: AnswerLines, send_next: Callable[[], None], is_closed: Callable[[], bool]
    ) -> None:
        self._lines = lines
        self._send_next = send_next
        self._is_closed = is_closed
        self.answers: list[AnswerToCome] = []  # short, and an empty deque takes 760 bytes

    @property
    def is_closed(self) -> bool:
        return self._is_closed()

    def admits(self, key: bytes | bytearray | memoryview) -> bool:
        """Whether a request may begin now, by its API key as its frame begins with it."""
        answers = self.answers
        return not answers or (len(answers) < self._lines.length_max and key == _PRODUCE)

    def join(self, result: Result | None = None, outcome: FutureLike | None = None) -> AnswerToCome:
        """Stand in line for the request that was begun last: with its `result`, or with the
        `outcome` that it waits for. A connection that is gone, as during a broker's start, has no
        line.
        """
        answer = AnswerToCome(self, result, outcome)
        if not self._is_closed():
            if not self.answers:
                self._lines.changed(1)
            self.answers.append(answer)
        elif outcome is not None:
            outcome.cancel()
        return answer

    def came(self, answer: AnswerToCome) -> None:
        """Note that an answer has come."""
        if self.answers and self.answers[0] is answer:
            self._send_next()

    def take(self) -> Result | None:
        """The next answer to send; None if it is yet to come."""
        answers = self.answers
        if not answers or answers[0].result is None:
            return None
        result = answers.pop(0).result
        if not answers:
            self._lines.changed(-1)
        return result

    def give_up(self) -> None:
        """The connection is gone: cancel the work that its answers wait for, and know nothing of it
        any more, so that the collector of cycles has nothing to do.
        """
        self._send_next, self._is_closed = _nothing, _yes
        answers, self.answers = self.answers, []
        if answers:
            self._lines.changed(-1)
        for answer in answers:
            if answer.outcome is not None:
                answer.outcome.cancel()


def _nothing() -> None:
    """Stand in for what a connection that is gone would do."""


def _yes() -> bool:
    return True


class AnswerToCome:
    """The Replier of one answer in the line: sending it starts no other request."""

    __slots__ = ("_line", "outcome", "result")

    def __init__(self, line: AnswerLine, result: Result | None, outcome: FutureLike | None) -> None:
        self._line = line
        self.result = result
        self.outcome = outcome

    @property
    def is_closed(self) -> bool:
        return self._line.is_closed

    def complete(self, result: Result) -> None:
        """Send the answer when it is its turn."""
        self.result = result
        self._line.came(self)

    def accept(self, outcome: FutureLike) -> AnswerToCome:  # noqa: ARG002  as a connection does
        return self

    def fail(self, error: ProtocolError) -> None:
        """Close the connection when it is its turn."""
        self.complete(error)
