"""The same requests of administration put to kbroker and to Apache Kafka 3.9.2 (ZooKeeper) and 4.3.1
(KRaft), in every version, and the answers compared field by field:
`python -m tests.integration.admin_hunt [--only PATTERN] [--record]`.

kbroker is to answer as one of them does; `admin_differences` lists what is meant to differ. Codes
and fields count first, sentences are shown after them. With `--record` what Apache Kafka answered is
kept for the tests, each question in the newest version that 3.9.2 serves, or 4.3.1 alone.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import socket
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from compat_tests.conftest import BrokerProcess
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.shared_zookeeper import fresh_chroot
from kbroker.model import ZERO_UUID
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.frame import SIZE
from kbroker.protocol.header import RequestHeader, encode_request_header, response_header_version
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.schema import Message, Struct, field_specs, response_class
from tests.integration.admin_differences import reason_of
from tests.integration.admin_questions import questions
from tests.integration.admin_requests import (
    BROKER_ID,
    KEPT_GROUP,
    Question,
    commit_offsets,
    create,
    topic,
)

Answers = dict[tuple[str, int], Any]  # by question and version

RECORDED = Path(__file__).parent.parent / "golden" / "wire" / "admin.jsonl.gz"
SETTINGS = {"log.cleaner.min.compaction.lag.ms": "0"}
TIMEOUT_S = 20.0
_FOLLOWING_VERSION: dict[int | None, int] = {3: 12, 9: 7, 32: 4, 48: 1}
"""Of Metadata, OffsetFetch, DescribeConfigs and DescribeClientQuotas."""
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
        """Return the versions that the broker serves and that are known here."""
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
    """Return a broker's answer to a question; the name of its topic reads `TOPIC`."""
    name = f"q{number}v{version}"
    if question.makes:
        peer.ask(create(topic(name)), 5)
    first, *others = question.requests(name)
    found = [peer.ask(first, version)]
    found += [peer.ask(other, _FOLLOWING_VERSION[other.spec.key]) for other in others]
    return _renamed(found, name)


def _renamed(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(each, name) for key, each in value.items()}
    if isinstance(value, list):
        return [_renamed(each, name) for each in value]
    return value.replace(name, "TOPIC") if isinstance(value, str) else value


def prepare(peer: Peer) -> None:
    """Make what the questions speak of."""
    peer.ask(create(topic("plain", 3), topic("dot.ted"), topic("__consumer_offsets", 3)), 5)
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        (first, *_) = peer.ask(commit_offsets(KEPT_GROUP, ("plain", 3), ("dot.ted", 1)), 2)[
            "topics"
        ]
        if first["partitions"][0]["error_code"] == 0:
            return
        time.sleep(0.1)  # until the broker coordinates groups
    raise TimeoutError


def flat(value: Any, path: str = "", *, sentences: bool = False) -> Iterator[tuple[str, Any]]:
    """The fields of an answer by their paths."""
    if isinstance(value, dict):
        for key, each in value.items():
            if sentences or key != "error_message":
                yield from flat(each, f"{path}.{key}", sentences=sentences)
    elif isinstance(value, list):
        yield f"{path}#", len(value)
        for index, each in enumerate(value):
            yield from flat(each, f"{path}[{index}]", sentences=sentences)
    else:
        yield path, value


def difference(here: Any, there: Any, *, sentences: bool = False) -> dict[str, tuple[Any, Any]]:
    """The fields in which two answers differ, both values of each."""
    a, b = (dict(flat(each, sentences=sentences)) for each in (here, there))
    return {p: (a.get(p), b.get(p)) for p in {**a, **b} if a.get(p) != b.get(p)}


def collect(peer: Peer, only: str = "", asked: Collection[tuple[str, int]] = ()) -> Answers:
    """Every question in every version that the broker serves, or those `asked`."""
    prepare(peer)
    found: Answers = {}
    for number, question in enumerate(questions()):
        if re.search(only, question.name):
            for version in peer.versions(question.requests("x")[0]):
                if not asked or (question.name, version) in asked:
                    found[question.name, version] = answers(peer, question, number, version)
    return found


def compare(here: Answers, lines: Sequence[Answers], *, sentences: bool = False) -> list[str]:
    """List answers of kbroker that differ from those of every line that serves the version, and
    must not.
    """
    found = []
    for (name, version), answer in here.items():
        apache = [line[name, version] for line in lines if (name, version) in line]
        differences = [difference(answer, other, sentences=sentences) for other in apache]
        if differences and all(differences) and reason_of(name, version) is None:
            found.append(f"{name}, version {version}: {differences[0]}")
    return found


def load(path: Path = RECORDED) -> tuple[Answers, Answers]:
    """Return the recorded answers of 3.9.2 and 4.3.1."""
    lines: tuple[Answers, Answers] = ({}, {})
    with gzip.open(path, "rt") as file:
        for row in file:
            line, name, version, answer = json.loads(row)
            lines[line][name, version] = answer
    return lines


def record(lines: Sequence[Answers], path: Path = RECORDED) -> None:
    """Keep answers, each question in the newest version of the first line that serves it."""
    newest = dict(sorted(lines[1])) | dict(sorted(lines[0]))
    rows = [
        json.dumps([number, name, version, line[name, version]], sort_keys=True)
        for number, line in enumerate(lines)
        for name, version in line
        if newest.get(name) == version
    ]
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        file.write("\n".join(rows).encode())


@contextmanager
def _apache(directory: Path) -> Iterator[list[ApacheBroker]]:
    brokers = [
        ApacheBroker(directory / "zookeeper", fresh_chroot(), settings=dict(SETTINGS)),
        ApacheBroker(directory / "kraft", settings=dict(SETTINGS)),
    ]
    started: list[ApacheBroker] = []
    try:
        for broker in brokers:
            broker.start()
            started.append(broker)
        yield brokers
    finally:
        for broker in started:
            broker.stop()


def kbroker(data: Path) -> BrokerProcess:
    """A kbroker with the settings of the others."""
    settings = {
        "broker.id": str(BROKER_ID),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        **SETTINGS,
    }
    overrides = [
        part for key, value in settings.items() for part in ("--override", f"{key}={value}")
    ]
    return BrokerProcess(data, ("--profile", "prod", *overrides))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="questions whose name this pattern finds")
    parser.add_argument("--record", action="store_true", help="keep what Apache Kafka answered")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="admin-hunt-") as directory:
        own = kbroker(Path(directory) / "kbroker" / "data")
        own.start()
        try:
            here = collect(Peer(own.bootstrap), options.only)
        finally:
            own.stop()
        with _apache(Path(directory)) as brokers:
            lines = [collect(Peer(broker.bootstrap), options.only) for broker in brokers]
    if options.record:
        kept: Sequence[Answers] = load() if options.only else ({}, {})
        record([{**old, **new} for old, new in zip(kept, lines, strict=True)])
    fields, everything = compare(here, lines), compare(here, lines, sentences=True)
    told = [
        *fields,
        "--- in their sentences alone",
        *sorted(set(everything) - set(fields)),
        f"{len(here)} answers, {len(fields)} differ beyond the list",
    ]
    sys.stdout.write("\n".join(told) + "\n")
    return bool(fields)


if __name__ == "__main__":
    sys.exit(main())
