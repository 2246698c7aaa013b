"""What `kbroker produce` and `kbroker consume` take for a million lines, beside kcat and the console
tools of Kafka.

Each tool writes the same file to a topic of its own, and reads that topic into a file, which must be
the same byte for byte. Time is that of the whole command, its start included.
"""

from __future__ import annotations

import filecmp
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import raw_client
from benchmarks.loads import Figures, Load
from benchmarks.processes import RunningBroker
from benchmarks.timed_command import timed_command
from compat_tests.running.apache_kafka import java_command

_LINES = 1_000_000
_LINE_BYTES = 100  # the line's end included
_TOOLS = "org.apache.kafka.tools"
_HEAP = "512m"  # what Kafka's scripts give to tools is 256m; this is no limit that counts here


def _commands(tool: str, bootstrap: str, topic: str) -> tuple[list[str], list[str]]:
    """Command lines that write standard input to a topic, and the topic to standard output."""
    if tool == "kcat":
        kcat = ["kcat", "-b", bootstrap, "-t", topic]
        return [*kcat, "-P", "-X", "enable.idempotence=true"], [*kcat, "-C", "-e", "-q"]
    if tool == "java":
        where = ("--bootstrap-server", bootstrap, "--topic", topic)
        read = ("--from-beginning", "--max-messages", str(_LINES))
        return (
            java_command(f"{_TOOLS}.ConsoleProducer", *where, heap=_HEAP),
            java_command(f"{_TOOLS}.consumer.ConsoleConsumer", *where, *read, heap=_HEAP),
        )
    kbroker = [sys.executable, "-m", "kbroker.cli"]
    place = ["--bootstrap", bootstrap]
    return [*kbroker, "produce", topic, *place], [*kbroker, "consume", topic, *place]


def lines_in_and_out() -> Load:
    """Seconds, seconds of CPU and the most memory (MiB) of each command."""

    def load(broker: RunningBroker) -> Figures:
        figures: Figures = {}
        with tempfile.TemporaryDirectory(prefix="kbroker-bench-") as home:
            lines, back = Path(home) / "lines", Path(home) / "back"
            _write_lines(lines)
            for tool in ("kbroker", "kcat", "java"):
                topic = f"lines-{tool}"
                raw_client.create_topic(broker.address, topic)
                produce, consume = _commands(tool, broker.bootstrap, topic)
                figures |= _timed(f"produce_{tool}", produce, lines, Path(os.devnull))
                figures |= _timed(f"consume_{tool}", consume, Path(os.devnull), back)
                if not filecmp.cmp(lines, back, shallow=False):
                    raise RuntimeError(f"{tool} read other lines than it wrote")
        return figures

    return load


def _write_lines(path: Path) -> None:
    random_bytes = random.Random(1).randbytes(_LINES * 12)
    with path.open("w") as file:
        for number in range(_LINES):
            text = f"{number} {random_bytes[number * 12 : number * 12 + 12].hex()} "
            file.write(text.ljust(_LINE_BYTES - 1, "x") + "\n")


def _timed(name: str, command: Sequence[str], source: Path, target: Path) -> Figures:
    took = timed_command(command, source, target)
    return {
        f"{name}_s": took.seconds,
        f"{name}_cpu_s": took.cpu_s,
        f"{name}_mib": took.peak_mib,
    }
