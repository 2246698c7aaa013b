"""All that a scenario has: the client's program, the broker, and the runner's own client."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from compat_tests.matrix.client import Client
from compat_tests.matrix.program import ClientError, Program
from compat_tests.matrix.reference import Reference
from compat_tests.matrix.serving.serve import Record, from_json, to_json
from compat_tests.matrix.targets import Target
from compat_tests.running.waiting import until

WAIT_S = 60.0


class LackError(Exception):
    """The client cannot do what the scenario is about; the message says why."""


@dataclass
class Stage:
    """A client and a broker, for one scenario. `name` begins the names of topics and groups."""

    client: Client
    program: Program
    target: Target
    reference: Reference
    name: str
    notes: list[str] = field(default_factory=list)

    def has(self, limit: str) -> bool:
        """Whether nothing limits the client there; what limits it becomes a note of the cell."""
        reason = self.client.limits.get(limit)
        if reason is None:
            return True
        if reason not in self.notes:
            self.notes.append(reason)
        return False

    def can(self, scenario: str) -> bool:
        """Whether the client can do what another scenario is about."""
        return scenario not in self.client.lacks

    def write(
        self, topic: str, records: list[Record], /, codec: str = "none", acks: int = -1
    ) -> None:
        """Let the client write."""
        self.program.ask(
            "write", topic=topic, records=[to_json(each) for each in records],
            codec=codec, acks=acks, idempotent=False,
        )  # fmt: skip

    def read(self, topic: str, start: int, count: int, committed: bool = False) -> list[Record]:
        """Let the client read partition 0."""
        found = self.program.ask("read", topic=topic, start=start, count=count, committed=committed)
        return [self.seen_through(from_json(each)) for each in found]

    def seen_through(self, record: Record) -> Record:
        """A record without what the client cannot write or show."""
        if "headers" in self.client.limits:
            record = replace(record, headers=())
        if "timestamps" in self.client.limits:
            record = replace(record, timestamp=None)
        return record

    def until(self, what: str, condition: Callable[[], Any]) -> None:
        """Wait for what must come. Raises AssertionError with `what`."""
        until(lambda: bool(condition()), what, WAIT_S)

    def shared(
        self, group: str, wanted: list[int], *members: str,
        owned: Callable[[str], list[int]] | None = None,
    ) -> None:  # fmt: skip
        """Wait until each member of a group has as many partitions as are wanted, which `owned`
        tells; `members` are asked what they see, and tell where they have failed.
        """
        last: list[int] = []

        def is_so() -> bool:
            nonlocal last
            for member in members:
                self.program.ask("seen", member=member)
            last = (owned or self.reference.owned)(group)
            return last == wanted

        try:
            self.until("members share the topic", is_so)
        except AssertionError:
            told = f"members have {last} partitions, not {wanted}"
            raise AssertionError(f"not within {WAIT_S} s: {told}") from None

    def arrived(self, topic: str, end: int) -> None:
        """Wait until partition 0 ends there, and not later."""
        self.until(f"{topic} ends at {end}", lambda: self.reference.ends(topic)[1] == end)

    def error_of(self, do: str, /, **arguments: Any) -> int | None:
        """Kafka's code of the error that the client reports for a request."""
        try:
            self.program.ask(do, **arguments)
        except ClientError as error:
            if error.code is None:
                raise
            return error.code
        return None


def numbers(first: int, count: int, partitions: int = 1) -> list[Record]:
    """Records with rising numbers as values, over all partitions in turn."""
    now_ms = int(time.time() * 1000)
    return [
        Record(number % partitions, None, str(number).encode(), (), now_ms)
        for number in range(first, first + count)
    ]


def same(found: list[Record], wanted: list[Record], reader: str) -> None:
    """Raise AssertionError with the first record that differs; `wanted` begins at its own offset."""
    for one, other in zip(found, wanted, strict=False):
        assert one == other, f"{reader} read {one}, and {other} was written"
    assert len(found) == len(wanted), f"{reader} read {len(found)} of {len(wanted)} records"


def values(records: list[Record]) -> list[str]:
    """The values as text."""
    return [(record.value or b"").decode() for record in records]
