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
from typing import Any

from compat_tests.answers.normal import Names, plain, strings
from compat_tests.raw_connection import ClosedError, SilenceError
from compat_tests.wire.wire_client import FETCH, METADATA, Ranges, WireClient, served

WAIT_MS = 900  # long enough to tell an answer that waited from one that came at once
LONG_WAIT_MS = 2_400  # the same where something happens meanwhile
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
            wait_ms = WAIT_MS if change is None else LONG_WAIT_MS
            may_wait = key == FETCH and values["max_wait"] >= wait_ms
            self._keep_timed(f"{label} v{version}", key, call, wait_ms if may_wait else 0)
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
            may_wait = "waits" in label
            self._keep_timed(f"{label} v{version}", key, call, WAIT_MS if may_wait else 0)

    def _keep_timed(
        self, label: str, key: int, call: Callable[[WireClient], Any], wait_ms: int
    ) -> None:
        """As `keep`. A fetch that may not wait (0) is timed too, with the patience that tells a
        broker that waits from one that is slow for a moment.
        """
        self.keep(label, call, (wait_ms or LONG_WAIT_MS) if key == FETCH else 0)

    def keep(self, label: str, call: Callable[[WireClient], Any], wait_ms: int = 0) -> None:
        """Keep what `call` returns or raises; with `wait_ms` also whether it took half of that."""
        if self.target.stopped.is_set():
            raise StoppedError
        client = self._client = self._client or WireClient(self.target.bootstrap, _SILENCE_S)
        before = time.monotonic()
        try:
            answer = {"answer": call(client)}
        except (ClosedError, SilenceError) as error:
            answer = {"answer": type(error).__name__}
            self.close()
        if wait_ms:
            waited = time.monotonic() - before > wait_ms / 2000
            answer["came"] = "later" if waited else "at once"
        assert label not in self.answers, label
        self.answers[label] = answer

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
