"""The same requests of administration put to kbroker and to Apache Kafka 3.9.2 (ZooKeeper) and 4.3.1
(KRaft), in every version, and the answers compared field by field:
`python -m tests.integration.admin_hunt [--only TEXT] [--record FILE]`.

kbroker is to answer as one of them does, see `admin_differences` for what is meant to differ.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.frame import SIZE
from kbroker.protocol.header import RequestHeader, encode_request_header, response_header_version
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.schema import Message, Struct, field_specs, response_class
from tests.integration.admin_questions import Question, create, questions, topic

TIMEOUT_S = 20.0
_CREATE_TOPICS = 19
_ALWAYS_LEFT_OUT = frozenset({
    "throttle_time_ms", "cluster_id", "port", "host", "log_dir", "total_bytes", "usable_bytes",
    "partition_size", "producer_id", "documentation", "cluster_authorized_operations",
    "topic_authorized_operations",
})  # fmt: skip
# Of entries with one of these fields the order says nothing.
_UNORDERED = frozenset({"config_source", "is_default", "partition_index", "partition_id"})


class Peer:
    """A broker that is asked."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._socket: socket.socket | None = None
        self.served = {
            api.api_key: (api.min_version, api.max_version)
            for api in self._exchange(ApiVersionsRequest(), 0).api_keys
        }

    def versions(self, request: Message) -> range:
        """What the broker serves of the versions that are known here."""
        lowest, highest = self.served.get(request.spec.key or 0, (0, -1))
        if getattr(request, "validate_only", False) and request.spec.key == _CREATE_TOPICS:
            lowest = max(lowest, 1)  # version 0 makes the topics
        return range(lowest, min(highest, request.spec.versions.highest) + 1)

    def ask(self, request: Message, version: int) -> Any:
        """The answer as plain values, or how the broker refused to give one."""
        try:
            return plain(self._exchange(request, version), version)
        except TimeoutError:
            self._close()
            return "silence"
        except ConnectionError:
            self._close()
            return "closed"

    def _exchange(self, request: Message, version: int) -> Any:
        assert request.spec.key is not None
        if self._socket is None:
            host, _, port = self.bootstrap.rpartition(":")
            self._socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        header = encode_request_header(RequestHeader(request.spec.key, version, 7, "hunt"))
        frame = header + encode(request, version)
        self._socket.sendall(SIZE.pack(len(frame)) + frame)
        (size,) = SIZE.unpack(self._read(4))
        answer = self._read(size)
        body = 5 if response_header_version(request.spec.key, version) else 4
        return decode(response_class(type(request)), version, answer, body)[0]

    def _read(self, size: int) -> bytes:
        assert self._socket is not None
        received = b""
        while len(received) < size:
            chunk = self._socket.recv(size - len(received))
            if not chunk:
                raise ConnectionResetError
            received += chunk
        return received

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None


def plain(value: Any, version: int) -> Any:
    """An answer as dicts, lists and texts, without what differs between any two brokers."""
    if isinstance(value, Struct):
        return {
            spec.name: plain(getattr(value, spec.name), version)
            for spec in field_specs(type(value))
            if spec.name not in _ALWAYS_LEFT_OUT and version in spec.versions
        }
    if isinstance(value, list):
        found = [plain(each, version) for each in value]
        is_unordered = found and isinstance(found[0], dict) and not _UNORDERED.isdisjoint(found[0])
        return sorted(found, key=str) if is_unordered else found
    if isinstance(value, UUID):
        return "no id" if value == ZERO_UUID else "an id"
    return value


def answers(peer: Peer, question: Question, number: int, version: int) -> Any:
    """What a broker says to a question; the name of its topic reads `TOPIC`."""
    name = f"q{number}v{version}"
    if question.makes:
        peer.ask(create(topic(name)), 5)
    first, *others = question.requests(name)
    found = [peer.ask(first, version)]
    found += [peer.ask(other, peer.versions(other)[-1]) for other in others]
    return _renamed(found, name)


def _renamed(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(each, name) for key, each in value.items()}
    if isinstance(value, list):
        return [_renamed(each, name) for each in value]
    return value.replace(name, "TOPIC") if isinstance(value, str) else value


def prepare(peer: Peer) -> None:
    """Make what the questions speak of."""
    peer.ask(create(topic("plain", 3), topic("dot.ted")), 5)


def asked(only: str = "") -> Iterator[tuple[int, Question]]:
    """The questions with their numbers."""
    for number, question in enumerate(questions()):
        if only in question.name:
            yield number, question
