"""The processor time that the counters and times of requests take: `python -m
benchmarks.instrument_cost`.

Two processes differ by five percent for nothing. So this is one broker, whose functions are
exchanged every 500 requests: as they are, the same once more, and without what they count. Each
block is compared with the next one of the other kind, so that what else the machine does meets
both; the first two are compared likewise, as a measure of what is left of it.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

import click

from benchmarks.processes import RunningBroker
from benchmarks.raw_client import RawClient
from benchmarks.request_kinds import Fetch, Metadata, Produce
from compat_tests.running import apache_kafka
from kbroker.apis import fetch_answers, fetch_shortcut, kafka_apis, lanes, session_fetch_shortcut
from kbroker.cli.__main__ import main as kbroker
from kbroker.replication.reads import fetch_reader
from kbroker.replication.writes import appends

_BLOCK: Final = 500  # requests
_BROKER: Final = "broker"  # the word that makes a process the broker of this benchmark
_CLOCK: Final = "perf_counter_ns"
_TOOK: Final = "took_ns"
_COUNTS: Final = ("counters.answered(", "counters.waited(", "count_sent(")
_COUNTING: Final[tuple[Any, ...]] = (
    lanes.Lanes.answer,
    vars(lanes.Lanes)["_conclude"],
    vars(lanes.Lanes)["_end"],
    vars(lanes.Lanes)["_fill"],
    kafka_apis.KafkaApis.handle,
    vars(kafka_apis.KafkaApis)["_ended"],
    appends.Appends.append_records,
    fetch_reader.FetchReader.read,
    vars(fetch_reader.FetchReader)["_read_partition"],
    vars(fetch_shortcut.FetchShortcut)["_answered"],
    vars(session_fetch_shortcut.SessionFetchShortcut)["_answered"],
    fetch_answers.answered,
)
LOADS: Final[dict[str, Any]] = {
    "produce 16 KiB": Produce(batch_bytes=16_384, record_bytes=1_000),
    "produce 200 B": Produce(batch_bytes=200, record_bytes=200),
    "fetch 16 KiB": Fetch(batch_bytes=16_384, record_bytes=1_000, batches=100),
    "fetch 200 B": Fetch(batch_bytes=200, record_bytes=200, batches=1_000),
    "metadata of a topic": Metadata(topics=1),
}


class Uncounted(ast.NodeTransformer):
    """Takes out of a function what counts and looks at the clock."""

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | None:
        """Drop an increment of a counter."""
        text = ast.unparse(node.target)
        return None if text.startswith("counters.") or ".counters." in text else node

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        """Drop what holds counters or times, and leave what else is assigned."""
        names = ast.unparse(node.targets[0])
        if names in ("counters", _TOOK, f"(counters, {_TOOK})"):
            return None
        if isinstance(node.targets[0], ast.Tuple) and names.strip("()").startswith("counters, "):
            assert isinstance(node.value, ast.Tuple)
            return ast.Assign([node.targets[0].elts[1]], node.value.elts[1])
        node.targets = [t for t in node.targets if not ast.unparse(t).endswith(".found_bytes")]
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Take 0 for the clock."""
        self.generic_visit(node)
        return ast.Constant(0) if ast.unparse(node.func) == _CLOCK else node

    def visit_For(self, node: ast.For) -> ast.AST | None:
        """Drop a loop that has only counted."""
        self.generic_visit(node)
        return node if node.body else None

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Drop a call that only counts."""
        self.generic_visit(node)
        return None if ast.unparse(node).startswith(_COUNTS) else node

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt] | None:
        """Drop a branch that has only counted, or looks at a time."""
        if _TOOK in ast.unparse(node.test):
            return None
        self.generic_visit(node)
        return node if node.body else node.orelse or None


def uncounted(function: FunctionType) -> CodeType:
    """The code of a function without what it counts."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    stripped = ast.fix_missing_locations(Uncounted().visit(tree))
    names = dict(function.__globals__)
    flags = __future__.annotations.compiler_flag
    exec(compile(stripped, function.__code__.co_filename, "exec", flags, True), names)
    code: CodeType = names[function.__name__].__code__
    return code


class Exchange:
    """Exchanges the code of the functions that count, at each signal."""

    def __init__(self) -> None:
        self._others = [(each, uncounted(each)) for each in _COUNTING]

    def switch(self, *_: Any) -> None:
        """Put the other code in place."""
        now = [each.__code__ for each, _ in self._others]
        for each, code in self._others:
            each.__code__ = code
        self._others = [(each, code) for (each, _), code in zip(self._others, now, strict=True)]


class Costs(NamedTuple):
    """The median microseconds of a request without instruments, and the median shares by which the
    two blocks with instruments took longer, and by which one of these took longer than the other.
    """

    without_us: float
    more: float
    again: float
    nothing: float


class Measured:
    """A broker that exchanges its code, and a client that asks it."""

    def __init__(self, running: RunningBroker) -> None:
        self._running = running

    def costs(self, load: Any, rounds: int, in_flight: int) -> Costs:
        """Ask in so many rounds of three blocks, with so many requests at a time."""
        made = load.made(self._running, 1_000).frames
        frames = [
            b"".join(made[(first + at) % len(made)] for at in range(in_flight))
            for first in range(0, _BLOCK, in_flight)
        ]
        client = RawClient(self._running.address)

        def ask() -> None:
            for some in frames:
                client.send(some)
                for _ in range(in_flight):
                    client.receive()

        def exchange() -> None:
            os.kill(self._running.process.pid, signal.SIGUSR1)
            client.send(made[0])
            client.receive()

        for _ in range(4):
            ask()
        kinds = ["with", "again", "without"]
        found: list[dict[str, float]] = []
        for _ in range(rounds):
            kinds.append(kinds.pop(0))  # nobody comes first each time
            found.append(
                {kind: self._block(ask, exchange, is_counted=kind != "without") for kind in kinds}
            )
        client.close()
        return Costs(
            statistics.median(each["without"] for each in found),
            *(
                statistics.median(each[one] / each[other] for each in found) - 1
                for one, other in (("with", "without"), ("again", "without"), ("again", "with"))
            ),
        )

    def _block(
        self, ask: Callable[[], None], exchange: Callable[[], None], *, is_counted: bool
    ) -> float:
        """The microseconds of a request. Each block begins with an exchange, as Python specializes
        the calls of a function anew after one, and ends as it began.
        """
        exchange()
        if is_counted:
            exchange()
        before = self._running.cpu_s()
        ask()
        cost = (self._running.cpu_s() - before) / _BLOCK * 1e6
        if not is_counted:
            exchange()
        return cost


@click.command()
@click.option("--rounds", default=60, help="Blocks of 500 requests of each kind.")
@click.option("--in-flight", default=1, help="Requests at a time.")
def main(rounds: int, in_flight: int) -> None:
    """Print what the instruments cost for some kinds of requests."""
    with tempfile.TemporaryDirectory() as directory:
        port = apache_kafka.free_port()
        command = [
            sys.executable, "-m", __spec__.name, _BROKER,
            "start", "--listen", f"127.0.0.1:{port}", "--data", str(Path(directory) / "data"),
        ]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                apache_kafka.wait_for_port(port, process)
                measured = Measured(
                    RunningBroker("", f"127.0.0.1:{port}", process, time.perf_counter())
                )
                for name, load in LOADS.items():
                    costs = measured.costs(load, rounds, in_flight)
                    click.echo(
                        f"{name}: {costs.without_us:.1f} us without, {costs.more:+.1%} and "
                        f"{costs.again:+.1%} with instruments, {costs.nothing:+.1%} between these"
                    )
            finally:
                process.kill()


if __name__ == "__main__":
    if _BROKER in sys.argv[1:2]:
        sys.argv.pop(1)
        signal.signal(signal.SIGUSR1, Exchange().switch)
        sys.exit(kbroker())
    main()
