"""Python imports this at its start if the folder is on PYTHONPATH: then the process notes in the folder
OVERHEARD what it shows. A file each: `log` has every line that kbroker could log, also those of levels
that are off; `output` what a command prints; `answers` what goes to clients; `arguments` how it starts
processes. A process that runs tests notes in `given` what it gives to those that it starts.

What tests see of their brokers and commands stays as it is.
"""

from __future__ import annotations

import builtins
import io
import logging
import os
import socket
import ssl
import subprocess
import sys
import weakref
from typing import Any

FOLDER = os.environ.get("OVERHEARD", "")
_OURS = "kbroker"
_accepted: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def note(kind: str, data: bytes) -> None:
    """Add to the file of this process."""
    runs_tests = "pytest" in sys.modules
    if not runs_tests or kind in ("log", "given", "answers"):
        with _open(f"{FOLDER}/{kind}-{os.getpid()}", "ab") as file:
            file.write(data)


_open = builtins.open


def _overhear_logs() -> None:
    """A record that gets to the log at DEBUG is noted; handlers get what they got before."""
    is_enabled, handle = logging.Logger.isEnabledFor, logging.Handler.handle
    form = logging.Formatter("%(levelname)s %(name)s %(message)s")

    def handle_as_before(self: logging.Handler, record: logging.LogRecord) -> Any:
        if is_enabled(logging.getLogger(record.name), record.levelno):
            return handle(self, record)
        return False

    def may_be_enabled(self: logging.Logger, level: int) -> bool:
        """True if nobody has said how much this logger, or one above it, tells."""
        logger: logging.Logger | None = self
        while logger is not None and logger.parent is not None:
            if logger.level > logging.INFO:
                return is_enabled(self, level)
            logger = logger.parent
        return True

    def call_handlers(self: logging.Logger, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] == _OURS or "pytest" not in sys.modules:
            note("log", form.format(record).encode(errors="replace") + b"\n")
        before(self, record)

    before = logging.Logger.callHandlers
    logging.Logger.callHandlers = call_handlers  # type: ignore[method-assign]
    logging.Handler.handle = handle_as_before  # type: ignore[method-assign]
    logging.Logger.isEnabledFor = may_be_enabled  # type: ignore[method-assign]


class _Overheard(io.FileIO):
    """Standard output or error."""

    def write(self, data: Any, /) -> int:
        written = super().write(data)
        note("output", bytes(data)[:written])
        return written or 0


def _overhear_output() -> None:
    def open_stream(file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
        if file not in (1, 2) or isinstance(file, bool) or "w" not in mode:
            return _open(file, mode, *rest, **options)
        return _stream(file, options)

    builtins.open = open_stream
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is not None:
            options = {"encoding": stream.encoding, "errors": stream.errors}
            line = {"buffering": 1} if stream.line_buffering else {}
            made = _stream(number, options | line)
            setattr(sys, name, made)
            setattr(sys, f"__{name}__", made)


def _stream(number: int, options: dict[str, Any]) -> io.TextIOWrapper:
    raw = _Overheard(number, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), options.get("encoding"), options.get("errors"),
        line_buffering=options.get("buffering") == 1 or os.isatty(number),
    )  # fmt: skip


def _overhear_answers() -> None:
    """Of connections that others have opened."""
    accept, send, tls_send = socket.socket.accept, socket.socket.send, ssl.SSLSocket.send

    def noted_accept(self: socket.socket) -> Any:
        connection, peer = accept(self)
        _accepted.add(connection)
        return connection, peer

    def noted_send(self: socket.socket, data: Any, *flags: int) -> int:
        sent = send(self, data, *flags)
        if self in _accepted:
            note("answers", bytes(data)[:sent])
        return sent

    def noted_tls_send(self: ssl.SSLSocket, data: Any, flags: int = 0) -> int:
        sent = tls_send(self, data, flags)
        if self.server_side:
            note("answers", bytes(data)[:sent])
        return sent

    socket.socket.accept = noted_accept  # type: ignore[method-assign]
    socket.socket.send = noted_send  # type: ignore[method-assign]
    ssl.SSLSocket.send = noted_tls_send  # type: ignore[method-assign]


def _overhear_processes() -> None:
    begin, communicate = subprocess.Popen.__init__, subprocess.Popen.communicate

    def noted_begin(self: Any, args: Any, *rest: Any, **options: Any) -> None:
        words = [args] if isinstance(args, (str, bytes, os.PathLike)) else list(args)
        data = b"\n".join(os.fsencode(word) for word in words) + b"\n\n"
        note("given", data)
        note("arguments", data)
        begin(self, args, *rest, **options)

    def noted_communicate(self: Any, input: Any = None, timeout: Any = None) -> Any:  # noqa: A002
        if input:
            note(
                "given", b"typed: " + (input.encode() if isinstance(input, str) else input) + b"\n"
            )
        return communicate(self, input, timeout)

    subprocess.Popen.__init__ = noted_begin  # type: ignore[method-assign]
    subprocess.Popen.communicate = noted_communicate  # type: ignore[method-assign]


if FOLDER:
    _overhear_logs()
    _overhear_output()
    _overhear_answers()
    _overhear_processes()
