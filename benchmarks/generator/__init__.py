"""Requests that were encoded beforehand, sent by a program of its own that takes little for it: so the
broker is what is measured.

The program is compiled once from `generator.c`, or is `python_generator.py` where there is no C
compiler. Both take the same arguments and print the same line. It reads the CPU of the brokers itself,
from the clocks of their processes (in nanoseconds, threads that have ended included), when all
connections are made. What speaks TLS, or logs in, is in C alone and needs OpenSSL's headers: Python's
TLS would take more than the broker that is measured.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from compat_tests.running.prerequisites import NotAvailableError, cached_folder

Address = tuple[str, int]
_FOLDER = Path(__file__).parent
_TLS_FLAGS = ("-DWITH_TLS", "-lssl", "-lcrypto")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What is sent: `frames` in turn, over `connections` in turn, with `in_flight` requests unanswered
    at most, on all of them together. Places are bytes from the beginning of a frame, its size included.
    """

    frames: Sequence[bytes]
    in_flight: int = 1
    connections: int = 1
    error_at: int = 0  # an error code in each answer that must be 0; 0: it has none
    rising_at: int = 0  # an int32 that is 1 in the first request and rises; 0: none does
    batch_at: int = -1  # a batch whose base sequence rises with each request; -1: sent as it is
    first: int = 0  # how many requests were sent before
    tls: bool = False  # whoever answers is believed


@dataclass(frozen=True, slots=True, kw_only=True)
class Visits:
    """Connections that send these frames one by one, end, and make room for the next: `at_once` of
    them at a time. With `keys` the last frame is the first message of a login by SCRAM-SHA-512.
    """

    frames: Sequence[bytes]
    error_at: int
    at_once: int
    tls: bool = False
    keys: ScramKeys | None = None


class ScramKeys(NamedTuple):
    """What proves a user's password, and the message that the proof is about, without its header."""

    client_key: bytes
    stored_key: bytes
    first_bare: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A request that produces one record, and one that fetches from the offset at `offset_at`."""

    produce: bytes
    fetch: bytes
    offset_at: int
    offset: int  # of the next record
    empty_bytes: int  # of an answer without records
    batch_bytes: int
    error_at: int
    fetch_error_at: int
    rising_at: int = 0  # as in Traffic, of what fetches
    first: int = 0


@dataclass(frozen=True, slots=True)
class Sent:
    """How many requests were answered, or records delivered, and what that took."""

    count: int
    elapsed_ns: int
    cpu_ns: int  # of the brokers
    sent: int  # `first` of what follows
    p50_ns: int = 0
    p99_ns: int = 0

    @property
    def cpu_us(self) -> float:
        """Broker CPU for one of them, in microseconds."""
        return self.cpu_ns / self.count / 1e3

    @property
    def per_s(self) -> float:
        """How many of them a second."""
        return self.count / (self.elapsed_ns / 1e9)


@functools.cache
def program() -> tuple[str, ...]:
    """Command of the generator, compiled once."""
    compiled = compiled_program(_FOLDER / "generator.c")
    if compiled is None:
        return (sys.executable, str(_FOLDER / "python_generator.py"))
    return (str(compiled),)


@functools.cache
def tls_program() -> tuple[str, ...]:
    """Command of the generator with TLS and logins. Raises NotAvailableError."""
    needs = "TLS and logins are sent by a program in C, which needs a compiler and libssl-dev"
    try:
        compiled = compiled_program(_FOLDER / "generator.c", *_TLS_FLAGS)
    except subprocess.CalledProcessError as error:
        raise NotAvailableError(needs) from error
    if compiled is None:
        raise NotAvailableError(needs)
    return (str(compiled),)


def compiled_program(source: Path, *flags: str) -> Path | None:
    """Program of one C file, which the cache keeps; None where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None

    def fill(folder: Path) -> None:
        target = str(folder / source.stem)
        command = [compiler, "-O2", "-o", target, str(source), *flags]
        subprocess.run(command, check=True, capture_output=True)

    content = source.read_bytes() + " ".join(flags).encode()
    version = hashlib.sha256(content).hexdigest()[:12]
    return cached_folder(f"{source.stem}-{version}", fill) / source.stem


def language() -> str:
    """Say what the generator is written in."""
    return "C" if len(program()) == 1 else "Python"


def send(
    address: Address, traffic: Traffic, requests: int, pids: Sequence[int] = (), seconds: int = 0
) -> Sent:
    """Send so many requests, for `seconds` at most unless that is 0. RuntimeError if an answer has an
    error. `pids`: of the brokers.
    """
    settings = {
        "requests": requests, "seconds": seconds, "pids": ",".join(map(str, pids)),
        "in_flight": traffic.in_flight, "connections": traffic.connections,
        "error_at": traffic.error_at, "rising_at": traffic.rising_at, "batch_at": traffic.batch_at, "first": traffic.first,
    }  # fmt: skip
    return _run("send", address, traffic.frames, settings, has_tls=traffic.tls)


def visit(
    address: Address, visits: Visits, count: int, pids: Sequence[int] = (), seconds: int = 0
) -> Sent:
    """Make so many connections, for `seconds` at most unless that is 0. RuntimeError if one fails;
    NotAvailableError if there is no program for it.
    """
    settings: dict[str, object] = {
        "requests": count, "seconds": seconds, "pids": ",".join(map(str, pids)),
        "error_at": visits.error_at, "workers": visits.at_once, "tls": int(visits.tls),
    }  # fmt: skip
    if visits.keys is not None:
        client_key, stored_key, first_bare = visits.keys
        settings |= {"client_key": client_key.hex(), "stored_key": stored_key.hex()}
        settings["first_bare"] = first_bare
    return _run("connect", address, visits.frames, settings, has_tls=True)


def deliver(
    address: Address,
    delivery: Delivery,
    records: int,
    pids: Sequence[int] = (),
    per_s: int = 0,
    seconds: int = 0,
) -> Sent:
    """Produce so many records, `per_s` of them, or the next one when a waiting consumer has the last
    if that is 0; for `seconds` at most unless that is 0. The latency of each counts from its request
    until the consumer has it.
    """
    settings = {
        "requests": records, "seconds": seconds, "per_s": per_s, "pids": ",".join(map(str, pids)),
        "offset_at": delivery.offset_at, "offset": delivery.offset,
        "empty_bytes": delivery.empty_bytes, "batch_bytes": delivery.batch_bytes,
        "error_at": delivery.error_at, "fetch_error_at": delivery.fetch_error_at,
        "rising_at": delivery.rising_at, "first": delivery.first,
    }  # fmt: skip
    return _run("deliver", address, [delivery.produce, delivery.fetch], settings)


def _run(
    kind: str,
    address: Address,
    frames: Sequence[bytes],
    settings: dict[str, object],
    *,
    has_tls: bool = False,
) -> Sent:
    command = tls_program() if has_tls else program()
    if has_tls:
        settings = {"tls": 1, **settings}
    with tempfile.NamedTemporaryFile(prefix="kbroker-frames-") as file:
        file.write(b"".join(frames))
        file.flush()
        words = [f"{name}={value}" for name, value in settings.items()]
        done = subprocess.run(
            [*command, kind, address[0], str(address[1]), file.name, *words],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the generator ended: {done.stderr[-600:]}")
    return Sent(*map(int, done.stdout.split()))
