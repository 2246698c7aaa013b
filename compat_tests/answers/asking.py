"""The same raw requests to several brokers.

Law: every answer is kept under a label that says what was asked and in which version, so that two
brokers can be compared label by label.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from compat_tests.answers.normal import Names, plain, strings
from compat_tests.clients.raw_connection import ClosedError, SilenceError
from compat_tests.wire.wire_client import FETCH, METADATA, Ranges, WireClient, served

WAIT_MS = 900  # long enough to tell an answer that waited from one that came at once
LONG_WAIT_MS = 2_400  # the same where something happens meanwhile
TRIES = 3
_UNTIL_IT_WAITS_S = 0.1
_SILENCE_S = 20.0
_PREPARED_WITHIN_S = 60.0  # topics and groups, on a busy machine
# Metadata, ListGroups, DescribeLogDirs, ListPartitionReassignments, ListTransactions,
# ListConfigResources and DescribeTopicPartitions may tell of everything that a broker has.
_LISTS = {3, 16, 35, 46, 66, 74, 75}

Answer = dict[str, Any]
Change = Callable[[WireClient], object]


class StoppedError(Exception):
    """Nobody wants further answers."""


@dataclass
class Target:
    """One broker: where it is, what it serves, and its names for the topics that are asked about."""

    name: str
    bootstrap: str
    names: Names = field(default_factory=Names)
    ranges: Ranges = field(default_factory=dict)
    node_id: int = -1
    stopped: threading.Event = field(default_factory=threading.Event)

    def learn(self, topics: Collection[str]) -> None:
        """Find out the ids of topics and their leader epoch; to be called after each start."""
        client = WireClient(self.bootstrap)
        asked = {self.names.on_broker(name): name for name in topics}
        wanted = [{"name": name} for name in asked]
        while any(t.error_code.value for t in client.call(METADATA, 10, topics=wanted).topics):
            time.sleep(0.05)  # it has just started
        answer = client.call(METADATA, 10, topics=wanted)
        self.node_id = answer.brokers[0].node_id
        for entry in answer.topics:
            self.names.ids[asked[entry.name]] = entry.topic_id
            epochs = (p.leader_epoch for p in entry.partitions)
            self.names.epoch = max(epochs, default=self.names.epoch)
        client.close()
        self.ranges = served(self.bootstrap)

    def serves(self, key: int, version: int) -> bool:
        """True when it lists that version."""
        low, high = self.ranges.get(key, (0, -1))
        return low <= version <= high


class Timing(NamedTuple):
    """How an answer is timed that comes at once or, where the request lets it wait, after `wait_ms`.

    A busy machine answers in between: then a request that changes nothing is asked again.
    """

    wait_ms: int
    may_wait: bool
    tries: int

    def is_sure(self, took_ms: float) -> bool:
        """Whether nothing but the broker has settled when it came."""
        return took_ms <= self.wait_ms / 2 or (self.may_wait and took_ms >= self.wait_ms)


def _timing(fetch: Answer, *, is_repeatable: bool) -> Timing | None:
    """How a fetch is timed: not at all where it may not wait, and is part of a session."""
    is_repeatable &= fetch.get("session_id", 0) == 0 and fetch.get("session_epoch", -1) == -1
    wait_ms = min(max(fetch["max_wait"], WAIT_MS), LONG_WAIT_MS)
    may_wait = fetch["max_wait"] >= WAIT_MS
    if not (may_wait or is_repeatable):
        return None
    return Timing(wait_ms, may_wait, TRIES if is_repeatable else 1)


class Caller:
    """Asks one broker and keeps the answers."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.names = target.names
        self.about: set[str] = set(target.names.ids)  # what lists of everything are to tell of
        self.answers: dict[str, Answer] = {}
        self._client: WireClient | None = None

    def ask(self, label: str, key: int, version: int, /, **values: Any) -> Any:
        """The decoded answer, None where there was none; kept under `label` and the version."""
        return self.ask_while(label, None, key, version, **values)

    def ask_while(
        self, label: str, change: Change | None, key: int, version: int, /, **values: Any
    ) -> Any:
        """As `ask`; `change` is made on another connection while the request is on its way."""
        entity = None
        wanted = self.names.sent(values)
        asked = {*strings(wanted), *map(self.names.on_broker, self.about)}

        def call(client: WireClient) -> Any:
            nonlocal entity
            correlation_id = client.send(key, version, **wanted)
            if change is not None:
                self._make(change)
            entity = client.receive(key, version, correlation_id)
            return plain(self.names, entity, asked if key in _LISTS else None)

        if self.target.serves(key, version):
            timing = _timing(values, is_repeatable=change is None) if key == FETCH else None
            self.keep(f"{label} v{version}", call, timing)
        return entity

    def ask_packed(
        self, label: str, key: int, version: int, frame: bytes, read: Callable[[bytes], Any]
    ) -> None:
        """Send a request that was packed by hand, which may wait where the label says so; what
        `read` makes of the answer is kept.
        """

        def call(client: WireClient) -> Any:
            client.send_frame(frame)
            return plain(self.names, read(client.receive_frame()))

        if self.target.serves(key, version):
            timing = Timing(WAIT_MS, "waits" in label, TRIES) if key == FETCH else None
            self.keep(f"{label} v{version}", call, timing)

    def keep(
        self, label: str, call: Callable[[WireClient], Any], timing: Timing | None = None
    ) -> None:
        """Keep what `call` returns or raises; with `timing` also whether it came at once."""
        if self.target.stopped.is_set():
            raise StoppedError
        assert label not in self.answers, label
        for _ in range(timing.tries if timing else 1):
            before = time.monotonic()
            answer = self._answer(call)
            if timing is None:
                break
            took_ms = (time.monotonic() - before) * 1000
            answer["came"] = "at once" if took_ms <= timing.wait_ms / 2 else "later"
            if timing.is_sure(took_ms):
                break
        self.answers[label] = answer

    def _answer(self, call: Callable[[WireClient], Any]) -> Answer:
        client = self._client = self._client or WireClient(self.target.bootstrap, _SILENCE_S)
        try:
            return {"answer": call(client)}
        except (ClosedError, SilenceError) as error:
            self.close()
            return {"answer": type(error).__name__}

    def _make(self, change: Change) -> None:
        time.sleep(_UNTIL_IT_WAITS_S)
        with self.beside() as other:
            change(other)

    def close(self) -> None:
        """Give the connection up; the next request opens a new one."""
        if self._client is not None:
            self._client.close()
            self._client = None

    @contextmanager
    def beside(self) -> Iterator[WireClient]:
        """Another connection to the same broker, whose answers are not kept."""
        client = WireClient(self.target.bootstrap, _PREPARED_WITHIN_S)
        try:
            yield client
        finally:
            client.close()
