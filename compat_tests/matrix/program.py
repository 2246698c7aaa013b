"""A client program: a process that answers requests, one line of JSON each."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import tempfile
import threading
from typing import Any

PATIENCE_S = 120.0
END_TIMEOUT_S = 10.0
_TAIL = 300


class ClientError(Exception):
    """The client reported an error; `code` is Kafka's where the client knows it."""

    def __init__(self, text: str, code: int | None) -> None:
        super().__init__(text)
        self.code = code


class ProgramError(Exception):
    """The program itself ended, or did not answer in time."""


class Program:
    """A running program. One request at a time: `begin` sends it, `finish` waits for the answer."""

    def __init__(self, command: list[str], environment: dict[str, str] | None = None) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(json.loads(line))
        self._answers.put(None)

    def ask(self, do: str, /, timeout_s: float = PATIENCE_S, **arguments: Any) -> Any:
        """Send a request; its answer. Raises ClientError and ProgramError."""
        self.begin(do, **arguments)
        return self.finish(timeout_s)

    def begin(self, do: str, /, **arguments: Any) -> None:
        """Send a request and do not wait."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ProgramError(self._how_it_ended()) from None

    def finish(self, timeout_s: float = PATIENCE_S) -> Any:
        """Wait for the answer to what was sent. Raises ClientError and ProgramError."""
        try:
            answer = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            self._process.kill()
            raise ProgramError(f"the client did not answer within {timeout_s:.0f} s") from None
        if answer is None:
            raise ProgramError(self._how_it_ended())
        if "error" in answer:
            raise ClientError(answer["error"], answer.get("code"))
        return answer["ok"]

    @property
    def is_running(self) -> bool:
        """Whether the program still takes requests."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the program: it goes at the end of its input, or is killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(END_TIMEOUT_S)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()
        self._errors.close()

    def _how_it_ended(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        tail = self._errors.read().decode(errors="replace").strip()[-_TAIL:]
        return f"the program ended with {code}: {tail}"
