"""kcat (librdkafka in C): a process for each thing that it does."""

from __future__ import annotations

import itertools
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaError

from compat_tests.matrix.serving.serve import PATIENCE_S, BrokerError, Record, serve, to_json

KEY_END, RECORD_END = "\x1e\x1f", "\x1f\x1e"
ASSIGNORS = {"eager": "range,roundrobin", "cooperative": "cooperative-sticky"}
# What comes before the bytes of a record: offset, time, lengths of key and value (-1 is null), headers.
HEAD = "%o %T %K %S %h\\n%k%s\\n"
CODES = {KafkaError(code).str(): code for code in range(1, 120)}


class Member:
    """A kcat of a group; librdkafka commits what it has printed."""

    def __init__(self, command: list[str]) -> None:
        self.seen: list[str] = []
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.seen.append(line.strip())

    def leave(self) -> None:
        time.sleep(0.2)  # what it has printed last is committed when it ends
        self._process.send_signal(signal.SIGINT)
        self._process.wait(PATIENCE_S)
        self._thread.join()


class Kcat:
    """Calls by the names of the protocol."""

    def __init__(self, bootstrap: str) -> None:
        self._command = ["kcat", "-b", bootstrap, "-X", "topic.metadata.refresh.interval.ms=1000"]
        self._members: dict[str, Member] = {}

    def hello(self) -> dict[str, str]:
        told = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True)
        found = re.search(r"Version (\S+)", told.stdout)
        return {"version": found[1] if found else "unknown"}

    def code(self, error: Exception) -> int | None:
        return None

    def _run(self, *arguments: str, stdin: bytes | None = None) -> bytes:
        done = subprocess.run(
            [*self._command, *arguments],
            input=stdin, capture_output=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        complaint = done.stderr.decode(errors="replace").strip()
        for text, code in CODES.items():
            if text in complaint and (done.returncode or "Delivery failed" in complaint):
                raise BrokerError(code, complaint)
        if done.returncode:
            raise RuntimeError(f"kcat ended with {done.returncode}: {complaint[-200:]}")
        return done.stdout

    def write(
        self, topic: str, records: list[Record], codec: str, acks: int, idempotent: bool,
        pause_ms: int = 0,
    ) -> None:  # fmt: skip
        for headers, some in itertools.groupby(records, key=lambda record: record.headers):
            named = [
                part
                for name, value in headers
                for part in ("-H", f"{name}={(value or b'').decode()}")
            ]
            command = [
                "-P", "-t", topic, "-p", str(records[0].partition), "-z", codec, "-K", KEY_END,
                "-D", RECORD_END, "-Z", "-X", f"acks={acks}", "-X", "message.max.bytes=2000000",
                "-X", f"enable.idempotence={str(idempotent).lower()}", *named,
            ]  # fmt: skip
            if pause_ms:
                self._write_slowly(command, list(some), pause_ms)
            else:
                self._run(*command, stdin=_packed(some))

    def _write_slowly(self, command: list[str], records: list[Record], pause_ms: int) -> None:
        flush = ["-X", "queue.buffering.max.ms=5"]
        process = subprocess.Popen(
            [*self._command, *command, *flush], stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdin is not None
        for record in records:
            process.stdin.write(_packed([record]))
            process.stdin.flush()
            time.sleep(pause_ms / 1000)
        _, complaint = process.communicate(timeout=PATIENCE_S)
        if process.returncode:
            raise RuntimeError(f"kcat ended with {process.returncode}: {complaint.decode()[-200:]}")

    def read(self, topic: str, start: int, count: int, committed: bool) -> list[dict[str, Any]]:
        isolation = "read_committed" if committed else "read_uncommitted"
        out = self._run(
            "-C", "-t", topic, "-p", "0", "-o", str(start), "-c", str(count), "-f", HEAD,
            "-X", f"isolation.level={isolation}", "-X", "auto.offset.reset=error",
        )  # fmt: skip
        return [to_json(record) for record in _unpacked(out)]

    def offset_at(self, topic: str, timestamp: int) -> int:
        told = self._run("-Q", "-t", f"{topic}:0:{timestamp}")
        found = re.search(rb"offset (-?\d+)", told)
        assert found, f"kcat printed {told!r}"
        return int(found[1])

    def join(self, member: str, group: str, topic: str, assignor: str) -> None:
        self._members[member] = Member([
            *self._command, "-u", "-f", "%s\\n", "-X", "auto.offset.reset=earliest",
            "-X", "session.timeout.ms=10000", "-X", "heartbeat.interval.ms=200",
            "-X", f"partition.assignment.strategy={ASSIGNORS[assignor]}", "-G", group, topic,
        ])  # fmt: skip

    def seen(self, member: str) -> list[str]:
        return self._members[member].seen

    def leave(self, member: str) -> list[str]:
        left = self._members.pop(member)
        left.leave()
        return left.seen


def _packed(records: Iterable[Record]) -> bytes:
    return b"".join(
        (record.key or b"") + KEY_END.encode() + (record.value or b"") + RECORD_END.encode()
        for record in records
    )


def _unpacked(out: bytes) -> Iterable[Record]:
    """Records by the lengths that stand before them."""
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        offset, timestamp, key_size, value_size, *rest = out[at:end].split(b" ", 4)
        at = end + 1
        key, at = _part(out, at, int(key_size))
        value, at = _part(out, at, int(value_size))
        at += 1
        headers = tuple(_headers(rest[0])) if rest and rest[0] else ()
        yield Record(0, key, value, headers, int(timestamp), int(offset))


def _part(out: bytes, at: int, size: int) -> tuple[bytes | None, int]:
    return (None, at) if size < 0 else (out[at : at + size], at + size)


def _headers(text: bytes) -> Iterable[tuple[str, bytes | None]]:
    for pair in text.split(b","):
        name, _, value = pair.partition(b"=")
        yield name.decode(), value


if __name__ == "__main__":
    serve(Kcat)
