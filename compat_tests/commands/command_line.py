"""Runs the command line as its users do, and looks at how it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from compat_tests.running.forked_kbroker import ForkedKbroker

FINE, ITEM_FAILED, USAGE, CANNOT_CONNECT, TIMED_OUT = 0, 1, 2, 3, 124
PROGRAM = (sys.executable, "-m", "kbroker.cli")
UNUSED = "127.0.0.1:1"
HEEDING = ("env", "--default-signal=INT")  # who runs tests in the background has it ignored


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    def lines(self) -> list[str]:
        return self.out.splitlines()

    def refused(self, code: int) -> str:
        """The one sentence of a command that failed with this code and printed no data."""
        assert (self.code, self.out) == (code, ""), self
        assert "Traceback" not in self.err
        lines = [line for line in self.err.splitlines() if line.strip()]
        if lines and lines[-1].startswith("See "):  # where more is said of it
            lines.pop()
        assert lines, "a failure says why"
        return lines[-1]


Run = Callable[..., Done]


def run(*arguments: str, stdin: str | bytes = b"", bootstrap: str | None = None) -> Done:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")}
    environment.pop("KBROKER_BOOTSTRAP", None)
    if bootstrap is not None:
        environment["KBROKER_BOOTSTRAP"] = bootstrap
    done = completed(arguments, stdin, env=environment, timeout_s=30)
    return Done(done.returncode, done.stdout, done.stderr)


def completed(
    arguments: Sequence[str],
    stdin: str | bytes = b"",
    env: Mapping[str, str] | None = None,
    timeout_s: float = 60,
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run([*PROGRAM, *arguments])` with both outputs read, and without its imports."""
    content = stdin if isinstance(stdin, bytes) else stdin.encode()
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with ForkedKbroker(*arguments, env=env, **pipes) as process:
        try:
            out, err = process.communicate(content, timeout=timeout_s)
        finally:
            process.kill()
    return subprocess.CompletedProcess(arguments, process.returncode, out.decode(), err.decode())


@contextmanager
def started(*arguments: str, bootstrap: str) -> Iterator[subprocess.Popen[str]]:
    process = ForkedKbroker(
        *arguments,
        "--bootstrap",
        bootstrap,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def interrupted(process: subprocess.Popen[str]) -> Done:
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=15)
    return Done(process.returncode, out, err)
