"""The same raw requests to several brokers: an answer as plain values in which what must differ
between two brokers is left out or named.

Law: every answer is kept under a label that says what was asked, so that two brokers can be
compared label by label. Ids, addresses and times are never compared, because they differ from run
to run; leader epochs count from the present one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from typing import Any
from uuid import UUID

from compat_tests.raw_connection import ClosedError, SilenceError
from compat_tests.wire.record_bytes import first_batch
from compat_tests.wire.wire_client import API_VERSIONS, METADATA, WireClient

WAIT_MS = 900  # long enough to tell an answer that waited from one that came at once
LONG_WAIT_MS = 2_400  # the same where something happens meanwhile
_UNTIL_IT_WAITS_S = 0.1
_SILENCE_S = 8.0
_LEFT_OUT = frozenset(
    {"throttle_time", "cluster_id", "host", "port", "controller_id", "node_id", "leader_id"}
    | {"replica_nodes", "isr_nodes", "offline_replicas", "error_message", "log_append_time"}
)
_EPOCHS = frozenset({"leader_epoch", "epoch"})

Answer = dict[str, Any]
Change = Callable[[WireClient], object]


@dataclass
class Target:
    """One broker: where it is, the ids and the leader epoch of the topics on it."""

    name: str
    bootstrap: str
    ids: dict[str, UUID] = field(default_factory=dict)
    epoch: int = 0
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)

    def learn(self, topics: list[str]) -> None:
        """Find out its ids, its leader epoch and what it serves; to be called after each start."""
        client = WireClient(self.bootstrap)
        asked = [{"name": name} for name in topics]
        while any(t.error_code.value for t in client.call(METADATA, 10, topics=asked).topics):
            time.sleep(0.05)  # it has just started
        for entry in client.call(METADATA, 10, topics=asked).topics:
            self.ids[entry.name] = entry.topic_id
            self.epoch = max((p.leader_epoch for p in entry.partitions), default=self.epoch)
        listed = client.call(
            API_VERSIONS, 3, client_software_name="asking", client_software_version="1"
        )
        self.ranges = {e.api_key: (e.min_version, e.max_version) for e in listed.api_keys}
        client.close()

    def serves(self, key: int, version: int) -> bool:
        """True when it lists that version."""
        low, high = self.ranges[key]
        return low <= version <= high


class Caller:
    """Asks one broker and keeps the answers."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.answers: dict[str, Answer] = {}
        self._client: WireClient | None = None

    def ask(self, label: str, key: int, version: int, /, **values: Any) -> Any:
        """The decoded answer, None where there was none; kept under `label` and the version."""
        return self.ask_while(label, None, key, version, **values)

    def ask_while(
        self, label: str, change: Change | None, key: int, version: int, /, **values: Any
    ) -> Any:
        """As `ask`; `change` is made on another connection while the request is on its way."""
        if not self.target.serves(key, version):
            return None
        entity = None

        def call(client: WireClient) -> Any:
            nonlocal entity
            correlation_id = client.send(key, version, **values)
            if change is not None:
                self._make(change)
            entity = client.receive(key, version, correlation_id)
            return self._plain("", entity)

        self._keep(f"{label} v{version}", call, WAIT_MS if change is None else LONG_WAIT_MS)
        return entity

    def ask_packed(
        self, label: str, key: int, version: int, frame: bytes, read: Callable[[bytes], Any]
    ) -> None:
        """Send a request that was packed by hand; what `read` makes of the answer is kept."""

        def call(client: WireClient) -> Any:
            client.send_frame(frame)
            return read(client.receive_frame())

        if self.target.serves(key, version):
            self._keep(f"{label} v{version}", call, WAIT_MS)

    def _keep(self, label: str, call: Callable[[WireClient], Any], wait_ms: int) -> None:
        client = self._client = self._client or WireClient(self.target.bootstrap, _SILENCE_S)
        before = time.monotonic()
        try:
            answer = {"answer": call(client)}
        except (ClosedError, SilenceError) as error:
            answer = {"answer": type(error).__name__}
            self.close()
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
        client = WireClient(self.target.bootstrap)
        yield client
        client.close()

    def _plain(self, name: str, value: Any) -> Any:
        if is_dataclass(value):
            found = {f.name: self._plain(f.name, getattr(value, f.name)) for f in fields(value)}
            return {key: held for key, held in found.items() if key not in _LEFT_OUT}
        if isinstance(value, tuple):
            return sorted((self._plain(name, element) for element in value), key=repr)
        if isinstance(value, Enum):
            return value.value
        if isinstance(value, UUID):
            names = {held: topic for topic, held in self.target.ids.items()}
            return names.get(value, "zero" if not value.int else "unknown id")
        if isinstance(value, bytes):
            return _records(value)
        if name == "session_id":
            return "a session" if value else 0
        if name in _EPOCHS and value >= 0:
            return f"present{value - self.target.epoch:+d}"
        return value


def _records(content: bytes) -> str:
    if len(content) < 61:
        return f"{len(content)} bytes"
    return f"{len(content)} bytes from offset {first_batch(content)['base_offset']}"


def differences(left: Any, right: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(path, left, right) of each plain value that differs."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in left.keys() | right.keys():
            yield from differences(left.get(key), right.get(key), f"{path}.{key}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for one, other in zip(left, right, strict=True):
            yield from differences(one, other, f"{path}[]")
    elif left != right:
        yield path, left, right
