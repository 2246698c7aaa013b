"""Apache Kafka's command-line tools, run one after the other in one Java process per version.

A tool works for a tenth of a second, and Java starts for one: a process each would be most of the
time of the tests that use tools. Where there is no compiler, each does have a process of its own.
"""

from __future__ import annotations

import functools
import shutil
import struct
import subprocess
import threading

from compat_tests.clients.java_clients import java_command, kept_classes
from compat_tests.running import apache_kafka
from compat_tests.running.apache_kafka import NEWEST, ZOOKEEPER_LINE


def run_tool(
    main_class: str,
    *args: str,
    version: str = NEWEST,
    stdin: str | None = None,
    timeout_s: float = 110,
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's tools to its end and return what it printed."""
    if shutil.which("javac") is None:
        return apache_kafka.run_tool(
            main_class, *args, version=version, stdin=stdin, timeout_s=timeout_s
        )
    return _runner(version).run(main_class, args, stdin or "", timeout_s)


class ToolRunner:
    """One Java process; it ends with this one."""

    def __init__(self, version: str) -> None:
        self._process = subprocess.Popen(
            java_command(kept_classes("Tools", ZOOKEEPER_LINE), version, "Tools"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def run(
        self, main_class: str, args: tuple[str, ...], stdin: str, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Raises EOFError where it takes longer, or Java ends; the next one has another process."""
        assert self._process.stdin is not None
        words = b"".join(map(_string, args))
        asked = _string(main_class) + struct.pack(">i", len(args)) + words + _bytes(stdin.encode())
        patience = threading.Timer(timeout_s, self._process.kill)
        patience.start()
        try:
            self._process.stdin.write(asked)
            self._process.stdin.flush()
            status = self._int()
            out, err = (self._read(self._int()).decode() for _ in range(2))
        except BaseException:  # also where the test's time is over: half an answer is on its way
            self._process.kill()
            _runner.cache_clear()
            raise
        finally:
            patience.cancel()
        return subprocess.CompletedProcess([main_class, *args], status, out, err)

    def _int(self) -> int:
        (number,) = struct.unpack(">i", self._read(4))
        return int(number)

    def _read(self, size: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(size)
        if len(data) < size:
            raise EOFError(f"Java ended with {self._process.wait()}")
        return data


@functools.cache
def _runner(version: str) -> ToolRunner:
    return ToolRunner(version)


def _string(text: str) -> bytes:
    """As Java's readUTF wants it, for text without NUL and beyond the basic plane."""
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data
