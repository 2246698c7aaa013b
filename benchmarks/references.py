"""What brokers are measured beside: kfake, which is franz-go's broker in Go and in memory, and bare
loops, which read a frame, write its batch to a file and send an answer that never differs.
"""

from __future__ import annotations

import functools
import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.generator import compiled_program
from benchmarks.processes import RunningBroker
from benchmarks.request_kinds import Produce
from compat_tests.clients.go_clients import built
from compat_tests.running.prerequisites import NotAvailableError, cached_folder

_FOLDER = Path(__file__).parent
_KFAKE = _FOLDER / "kfake"
_BARE_LOOP = _FOLDER / "bare_loop"


@functools.cache
def kfake_program() -> Path | None:
    """The program of kfake, compiled once; None where there is no Go, which is printed."""
    pinned = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(_KFAKE.iterdir())))

    def fill(folder: Path) -> None:
        built(_KFAKE, folder / "kfake", modules=_KFAKE)

    try:
        return cached_folder(f"kfake-{pinned.hexdigest()[:12]}", fill) / "kfake"
    except NotAvailableError as error:
        print(f"without kfake: {error}", file=sys.stderr)
        return None


@contextmanager
def kfake() -> Iterator[RunningBroker]:
    """One broker of kfake, on a free port."""
    with _started("kfake", [str(kfake_program())]) as broker:
        yield broker


@functools.cache
def bare_loops() -> dict[str, tuple[str, ...]]:
    """Commands of bare loops by name: on uvloop, and in C if there is a compiler."""
    loops = {"bare uvloop": (sys.executable, str(_BARE_LOOP / "uvloop_bare_loop.py"))}
    compiled = compiled_program(_BARE_LOOP / "bare_loop.c")
    return loops if compiled is None else {"bare C": (str(compiled),), **loops}


@contextmanager
def bare_loop(name: str, sends: Produce) -> Iterator[RunningBroker]:
    """A bare loop that serves these requests on a free port."""
    _, answer, batch_at, batch_bytes = sends.bare()
    with tempfile.TemporaryDirectory(prefix="kbroker-bench-") as home:
        Path(home, "answer").write_bytes(answer)
        arguments = [f"{home}/answer", str(batch_at), str(batch_bytes), f"{home}/data"]
        with _started(name, [*bare_loops()[name], *arguments]) as loop:
            yield loop


@contextmanager
def _started(name: str, command: Sequence[str]) -> Iterator[RunningBroker]:
    started_at = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            bootstrap = process.stdout.readline().decode().strip()
            if not bootstrap:
                raise RuntimeError(f"{name} did not start")
            yield RunningBroker(name, bootstrap, process, started_at)
        finally:
            process.kill()
