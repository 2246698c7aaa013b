"""A broker process of one's own for a fault test: started, killed, stopped, and looked at from
outside.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from socket import create_connection, socket
from typing import Any

from compat_tests.running.forked_kbroker import ForkedKbroker
from kbroker.protocol.codec import encode
from kbroker.protocol.messages.api_versions import ApiVersionsRequest

API_VERSIONS_KEY = 18
HEADER = struct.Struct(">hhih")


class RunningBroker:
    """One `kbroker start` over `data`; what it says goes to `log`."""

    def __init__(self, data: Path, *options: str, before: Callable[[], None] | None = None) -> None:
        self.data = data
        self.options = options
        self.before = before
        self.port = 0
        self.log = data.parent / f"{data.name}.log"
        self.process: subprocess.Popen[str] | None = None

    def spawn(self) -> subprocess.Popen[str]:
        """Start the process without waiting for it to serve."""
        arguments = (
            "start", "--listen", f"127.0.0.1:{self.port}", "--data", str(self.data),
            "--log-level", "info", "--log-format", "text", *self.options,
        )  # fmt: skip
        with self.log.open("a") as log:
            pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": log, "text": True}
            if self.before is None:
                self.process = ForkedKbroker(*arguments, **pipes)
            else:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "kbroker.cli", *arguments],
                    preexec_fn=self.before,  # noqa: PLW1509  sets a limit and does nothing else
                    **pipes,
                )
        return self.process

    def start(self) -> RunningBroker:
        """Start and return when it listens and serves."""
        process = self.spawn()
        assert process.stdout is not None
        for line in process.stdout:
            if "listening on" in line:
                self.port = int(line.strip().rpartition(":")[2])
                return self
        raise AssertionError(f"the broker ended with {process.wait()}: {self.said()[-2000:]}")

    def kill(self) -> None:
        """End it as a power loss ends a process."""
        assert self.process is not None
        self.process.kill()
        self._reap()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Stop it and return its exit code."""
        assert self.process is not None
        self.process.send_signal(how)
        return self._reap()

    def end(self) -> None:
        """Make sure that it is gone, whatever the test did."""
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def said(self) -> str:
        """Its log so far."""
        return self.log.read_text() if self.log.exists() else ""

    def memory_mb(self) -> float:
        """Resident memory."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def cpu_s(self) -> float:
        """CPU time that it has taken."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def descriptors(self) -> int:
        """How many descriptors it holds."""
        assert self.process is not None
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def connect(self, timeout_s: float = 10.0) -> socket:
        """A bare connection."""
        return create_connection(("127.0.0.1", self.port), timeout=timeout_s)

    def assert_serves(self) -> None:
        """A new client gets its answer."""
        with self.connect() as connection:
            connection.sendall(frame(API_VERSIONS_KEY, 2, encode(ApiVersionsRequest(), 2)))
            assert len(read_answer(connection)) > 4

    def _reap(self) -> int:
        assert self.process is not None
        code = self.process.wait(30)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


def frame(
    key: int, version: int, body: bytes, *, flexible: bool = False, correlation: int = 7
) -> bytes:
    """A whole request: size, header of version 1 or 2, body."""
    header = HEADER.pack(key, version, correlation, 2) + b"ft" + (b"\0" if flexible else b"")
    return struct.pack(">i", len(header) + len(body)) + header + body


def read_answer(connection: socket) -> bytes:
    """The next answer without its size; empty when the connection was closed instead."""
    size = _read(connection, 4)
    return _read(connection, struct.unpack(">i", size)[0]) if len(size) == 4 else b""


def _read(connection: socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        try:
            chunk = connection.recv(size - len(received))
        except ConnectionError:
            break
        if not chunk:
            break
        received += chunk
    return bytes(received)
