"""The members of a group in a hunt: processes with clients of Java, librdkafka and franz-go, that say
what they do.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from compat_tests.clients.go_clients import kept_program
from compat_tests.clients.java_clients import java_command, kept_classes
from compat_tests.running import apache_kafka


def now_ms() -> int:
    return int(time.time() * 1000)


@dataclass(eq=False)
class Member:
    """A process of the group, and what it has said."""

    name: str
    client: str
    protocol: str
    process: subprocess.Popen[str]
    said: list[tuple[int, str, list[int]]] = field(default_factory=list)
    ended_ms: int | None = None  # what it does from then on does not count
    is_asked_to_leave: bool = False
    is_silent: bool = False  # it went without leave, and is missed when its session is over

    def listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            time_ms, what, *rest = line.split()
            numbers = [int(each) for each in ",".join(rest).split(",") if each]
            self.said.append((int(time_ms), what, numbers))
        if self.ended_ms is None:
            self.ended_ms = now_ms()
            if not (self.is_asked_to_leave or self.is_silent):
                self.is_silent = True
                print(f"{self.name} ended with {self.process.wait()}", flush=True)

    def let_leave(self) -> None:
        """Ask it to end; it leaves the group then."""
        assert self.process.stdin is not None
        self.is_asked_to_leave = True
        self.process.stdin.close()

    def stop(self, how: signal.Signals) -> None:
        """Let it do nothing from now on, of which its group hears by its session."""
        self.is_silent = True
        self.process.send_signal(how)
        self.ended_ms = now_ms()

    def owned(self) -> set[int]:
        """The partitions that it has now."""
        has: set[int] = set()
        for _, what, numbers in list(self.said):
            if what == "got":
                has |= set(numbers)
            elif what in ("gave", "lost"):
                has -= set(numbers)
        return has

    def began_ms(self) -> int:
        """When its client began; that of Java takes a while until then."""
        return next((time_ms for time_ms, what, _ in self.said if what == "here"), now_ms())

    def reads(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield when it read, from which partition, and the first and the last offset."""
        for time_ms, what, numbers in list(self.said):
            if what == "read":
                partition, first, last = numbers
                yield time_ms, partition, first, last

    def spans(self) -> Iterator[Span]:
        """Yield the partitions that it had."""
        since: dict[int, int] = {}
        for time_ms, what, numbers in self.said:
            if self.ended_ms is not None and time_ms > self.ended_ms:
                break
            for each in numbers if what != "read" else ():
                if what == "got":
                    since[each] = time_ms
                elif each in since:
                    yield Span(since.pop(each), time_ms, each, self, is_taken=what == "lost")
        end_ms = self.ended_ms or now_ms()
        yield from (Span(began_ms, end_ms, each, self) for each, began_ms in since.items())


@dataclass(frozen=True)
class Span:
    """A partition and the time in which a member had it."""

    began_ms: int
    end_ms: int
    partition: int
    member: Member
    is_taken: bool = False  # the member heard only later that it is out of its group


def command_of(client: str) -> list[str]:
    """The program, which takes BOOTSTRAP TOPIC GROUP PROTOCOL NAME ASSIGNOR."""
    if client == "franz-go":
        return [str(kept_program("member"))]
    if client == "java":
        version = apache_kafka.NEWEST
        return java_command(kept_classes("Member", version), version, "Member")
    return [sys.executable, "-m", "compat_tests.clients.librdkafka_member"]
