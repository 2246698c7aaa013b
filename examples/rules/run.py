"""Runs an example of rules: a broker, the generator's events, the job, which is killed on the way
as is the broker, and the comparison with the generator's truth.

    python -m examples.rules.run logs-errors [--events 3000] [--restarts 2] [--plot output.svg]

With --bootstrap it runs against a broker that is there, which is left alone; with --data it only
says what it would write. Exit code 1 where a topic does not hold exactly what it should.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from examples.rules.events import Event

HERE = Path(__file__).resolve().parent
PATIENCE_S = 600.0
Records = list[tuple[str | None, str]]


def load_generator(example: str) -> ModuleType:
    """The module `generator.py` of an example."""
    path = HERE / example / "generator.py"
    if not path.is_file():
        names = sorted(found.parent.name for found in HERE.glob("*/generator.py"))
        raise SystemExit(f"Error: there is no example {example}: there are {', '.join(names)}")
    found = importlib.util.spec_from_file_location(f"generator of {example}", path)
    assert found is not None, "it is a file of Python"
    assert found.loader is not None, "it is a file of Python"
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def kbroker(*arguments: str) -> list[str]:
    """A command of this Python's kbroker."""
    return [sys.executable, "-m", "kbroker.cli", *arguments]


class RunningBroker(Protocol):
    """A broker that can be killed and started again on its port."""

    @property
    def address(self) -> str: ...

    def start(self) -> None: ...

    def kill(self) -> None: ...


class Broker:
    """One of kbroker, started."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.address = "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        command = kbroker("start", "--data", str(self._data), "--listen", self.address)
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if "listening on" not in line:
            raise SystemExit(f"the broker did not start: {line}")
        self.address = line.split()[-1]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class OthersBroker:
    """A broker that runs already, and is neither killed nor started."""

    def __init__(self, address: str) -> None:
        self.address = address

    def start(self) -> None:
        """It runs."""

    def kill(self) -> None:
        """It is not ours."""


class Job:
    """`kbroker pipeline rules` over an example."""

    def __init__(self, example: str, folder: Path, address: str) -> None:
        self._metrics = folder / "metrics.jsonl"
        self._command = kbroker(
            "pipeline", "rules", str(HERE / example / "rules.toml"), "--bootstrap", address,
            "--checkpoint", str(folder / "checkpoint"), "--metrics", str(self._metrics),
        )  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen([*self._command, "--every", "1s"])

    def wait_for(self, topic_ends: Mapping[str, int]) -> None:
        """Until it has read so many offsets of each topic."""
        give_up_s = time.monotonic() + PATIENCE_S
        while not self._has_read(topic_ends):
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > give_up_s:
                raise SystemExit("the job has not read what was written")
            time.sleep(0.2)

    def _has_read(self, topic_ends: Mapping[str, int]) -> bool:
        if not self._metrics.exists():
            return False
        ends: dict[tuple[str, str], int] = {}
        for line in self._metrics.read_text().splitlines():
            for topic, partitions in json.loads(line)["ranges"].items():
                ends |= {(topic, number): end for number, (_, end) in partitions.items()}
        read: Counter[str] = Counter()
        for (topic, _), end in ends.items():
            read[topic] += end
        return all(read[topic] >= end for topic, end in topic_ends.items())

    def end(self, how: signal.Signals) -> None:
        assert self._process is not None
        if how is signal.SIGKILL:
            _kill_children(self._process.pid)
        self._process.send_signal(how)
        self._process.wait()

    def finish(self) -> None:
        """Read what is left, and end all windows."""
        subprocess.run([*self._command, "--once", "--close-windows"], check=True)


def _kill_children(pid: int) -> None:
    """Java is a child of the job."""
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    for child in found.stdout.split():
        _kill_children(int(child))
        with suppress(ProcessLookupError):  # it has ended
            os.kill(int(child), signal.SIGKILL)


def write(address: str, events: Sequence[Event]) -> None:
    """Write events in their order, each into its partition."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=address, acks="all")
    for event in events:
        producer.send(
            event.topic, event.value.encode(), key=event.key.encode(), partition=event.partition
        )
    producer.flush()
    producer.close()


def read(address: str, topic: str) -> Records:
    """All committed records of a topic."""
    command = kbroker("consume", topic, "--bootstrap", address, "--output", "jsonl")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [(row["key"], row["value"]) for row in rows]


def compared(records: Records, *, only_newest: bool) -> Counter[tuple[str | None, str]]:
    """Records as they are compared: JSON with its keys in order; with `only_newest` the last of
    each key, as compaction leaves it.
    """
    found = [(key, _ordered(value)) for key, value in records]
    return Counter(dict(found).items() if only_newest else found)


def _ordered(value: str) -> str:
    try:
        row = json.loads(value)
    except ValueError:
        return value
    return json.dumps(row, sort_keys=True)


def differences(
    generator: ModuleType, events: list[Event], results: dict[str, Records]
) -> list[str]:
    """A line for each topic that is not as it should be."""
    found = []
    for topic, expected in generator.truth(events).items():
        only_newest = topic in generator.LATEST
        wanted = compared(expected, only_newest=only_newest)
        there = compared(results[topic], only_newest=only_newest)
        if wanted != there:
            missing, more = list((wanted - there).elements()), list((there - wanted).elements())
            found.append(
                f"{topic}: {len(missing)} missing, such as {missing[:1]}; "
                f"{len(more)} too many, such as {more[:1]}"
            )
    return found


def data_lines(events: Sequence[Event]) -> str:
    """Events as JSON, a line for each."""
    names = ("topic", "partition", "key", "value")
    rows = ({name: getattr(event, name) for name in names} for event in events)
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def run(
    example: str,
    seed: int,
    count: int,
    restarts: int,
    *,
    plot: str | None = None,
    started: Callable[[Path], RunningBroker] = Broker,
) -> int:
    """The exit code; `started` answers with a running broker whose data are in a directory."""
    generator = load_generator(example)
    events: list[Event] = generator.events(seed, count)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        broker = started(folder / "data")
        job = Job(example, folder, broker.address)
        try:
            for topic, partitions in generator.TOPICS.items():
                command = ("topic", "create", topic, "--partitions", str(partitions))
                subprocess.run(kbroker(*command, "--bootstrap", broker.address), check=True)
            _Writing(generator, broker, job).with_restarts(events, restarts)
            job.finish()
            results = {topic: read(broker.address, topic) for topic in generator.truth(events)}
        finally:
            broker.kill()
    wrong = differences(generator, events, results)
    for topic, records in results.items():
        print(f"{topic}: {len(records)} records")
    print("\n".join(wrong) or f"exactly as the truth of {len(events)} events")
    if plot is not None:
        _draw(generator, results, plot)
    return 1 if wrong else 0


class _Writing:
    """Writes events while the job runs. Those of a table wait until the job has read all before
    them: a table as it is now must not be seen by events that were written before.
    """

    def __init__(self, generator: ModuleType, broker: RunningBroker, job: Job) -> None:
        self._tables: Collection[str] = getattr(generator, "TABLES", ())
        self._broker = broker
        self._job = job
        self._ends: Counter[str] = Counter()

    def with_restarts(self, events: list[Event], restarts: int) -> None:
        self._job.start()
        size = -(-len(events) // (restarts + 1))
        for number in range(restarts + 1):
            piece = events[number * size : (number + 1) * size]
            half = len(piece) // 2
            self._write(piece[:half])
            self._wait()
            self._write(piece[half:])  # the job is in a batch of these when it is killed
            if number == restarts:
                break
            if number % 2 == 0 or isinstance(self._broker, OthersBroker):
                self._job.end(signal.SIGKILL)
                self._job.start()
            else:
                self._broker.kill()
                self._broker.start()
        self._wait()
        self._job.end(signal.SIGTERM)

    def _write(self, events: list[Event]) -> None:
        for is_table, group in groupby(events, lambda event: event.topic in self._tables):
            found = list(group)
            if is_table:
                self._wait()
            write(self._broker.address, found)
            if not is_table:
                self._ends.update(event.topic for event in found)

    def _wait(self) -> None:
        if self._ends:
            self._job.wait_for(self._ends)


def _draw(generator: ModuleType, results: dict[str, Records], path: str) -> None:
    from matplotlib.figure import Figure

    rows: dict[str, list[dict[str, Any]]] = {}
    for topic, records in results.items():
        rows[topic] = [json.loads(value) for _, value in records if value.startswith("{")]
    figure = Figure(figsize=(9, 4), layout="constrained")
    generator.plot(figure, rows)
    figure.savefig(path)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.rules.run")
    parser.add_argument("example", help="a folder here, such as logs-errors")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", type=int, default=3_000)
    parser.add_argument("--restarts", type=int, default=2, help="of job and broker, in turn")
    parser.add_argument("--plot", metavar="FILE", help="draw the results")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="instead of a broker of its own")
    parser.add_argument("--data", action="store_true", help="print the events and do no more")
    given = parser.parse_args()
    if given.data:
        print(data_lines(load_generator(given.example).events(given.seed, given.events)), end="")
        return 0
    more = {"started": lambda _: OthersBroker(given.bootstrap)} if given.bootstrap else {}
    return run(given.example, given.seed, given.events, given.restarts, plot=given.plot, **more)


if __name__ == "__main__":
    sys.exit(main())
