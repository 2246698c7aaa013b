"""Authentications: the clients of one listener that were let in or refused, by a handshake of TLS
alone or by a login, and those that were so again on an open connection.

Pure.
"""

from __future__ import annotations

from kbroker.counters import Counter

NAMES = (
    "successful-authentication",
    "failed-authentication",
    "successful-reauthentication",
    "failed-reauthentication",
)


class Authentications:
    """The counters of one listener."""

    __slots__ = ("failed", "failed_again", "succeeded", "succeeded_again")

    def __init__(self) -> None:
        self.succeeded = Counter()
        self.failed = Counter()
        self.succeeded_again = Counter()
        self.failed_again = Counter()

    def let_in(self, *, is_again: bool) -> None:
        """Count a client that is known now."""
        (self.succeeded_again if is_again else self.succeeded).value += 1

    def refused(self, *, is_again: bool) -> None:
        """Count a client that is not."""
        (self.failed_again if is_again else self.failed).value += 1

    def counters(self) -> tuple[Counter, ...]:
        """The counters in the order of their names."""
        return self.succeeded, self.failed, self.succeeded_again, self.failed_again

    def counts(self) -> tuple[int, ...]:
        """Return their values likewise."""
        return tuple(counter.value for counter in self.counters())
