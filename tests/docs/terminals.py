"""Carries out what a page shows, as its reader would, and says what has to be the same each time."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compat_tests.running.apache_kafka import free_port, wait_for_port
from compat_tests.running.prerequisites import NotAvailableError
from tests.docs.pages import Shown

# A partition with generated ids of brokers before and after: which ones is a matter of chance.
_MOVED = r"^(\w+) +\d+ +10\d\d(?:,10\d\d)* +10\d\d(?:,10\d\d)*$"
# Which balance comes first, the one that a page shows or the controller's own, is a matter of pace.
_BY_HAND_ONLY = {"KAFKA_AUTO_LEADER_REBALANCE_ENABLE": "false"}
_LONGEST_S = 400  # of a job on a busy machine
DEFAULT_ADDRESS = "127.0.0.1:9092"


@contextmanager
def what_may_be_missing() -> Iterator[None]:
    """Skip the test where a program that it needs is not on this machine."""
    try:
        yield
    except NotAvailableError as error:
        pytest.skip(str(error))


def starts_a_broker(command: str) -> bool:
    return command == "make run" or "kbroker start" in command


def environment(**more: str) -> dict[str, str]:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("KAFKA_", "KBROKER_"))}
    return {**plain, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **more}


def settled(text: str) -> str:
    """The text without what is different each time: times, ports, names of temporary directories."""
    text = re.sub(r"\b1[78]\d{11}\b", "TIMESTAMP", text)
    text = re.sub(r"\bin [\d.]+ s, [\d,]+ MB/s", "in N s", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", text)
    return re.sub(r"\S+/kbroker-\w+,", "DIRECTORY,", text).rstrip("\n")


def run(command: list[str], directory: Path, timeout_s: float = 100, **more: str) -> str:
    """Standard output and error together; the command must succeed."""
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


class Terminals:
    """What the parts about clusters and the pipeline show, carried out in its order: what serves runs on until
    something else wants its place, or the text says that it has stopped.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.settings: dict[str, str] = {}  # of the environment, for commands that end
        self._ports = {port: free_port() for port in (2181, 9092, 9093, 9094, 9095)}
        self._running: list[tuple[str, subprocess.Popen[str]]] = []

    @property
    def address(self) -> str:
        """Of the broker that is shown with the default address."""
        return f"127.0.0.1:{self._ports[9092]}"

    def play(self, shown: Shown) -> None:
        """Carry one command out, and compare what it prints."""
        command = re.sub(r"(?<=:|=)(2181|909[2-5])\b", self._port, shown.command)
        if starts_a_broker(command):
            self._start(command, shown)
        elif command.startswith("java "):
            process = self._serve("java", command)
            wait_for_port(self._ports[2181], process)  # a broker that comes earlier says it waits
        else:
            if "kbroker cluster export" in command or "kbroker cluster import" in command:
                self.stop("kbroker")
            elif "offline" in shown.output:
                self.stop("kbroker", 1)
            said = self._said(command)
            give_up_s = time.monotonic() + 15
            while (
                command.startswith("kbroker cluster status")  # brokers hear of news in a moment
                and unvarying(said) != unvarying(shown.output)
                and time.monotonic() < give_up_s
            ):
                said = self._said(command)
            assert unvarying(said) == unvarying(shown.output), f"$ {command}\n{said}"

    def stop(self, kind: str, most: int = 3) -> None:
        """Ctrl-C in those of a kind that were started last."""
        for _, process in [entry for entry in self._running if entry[0] == kind][-most:]:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=100)
        self._running = [entry for entry in self._running if entry[1].poll() is None]

    def _stop_at(self, address: str) -> None:
        """Ctrl-C in the broker that has this address: it is started again."""
        for _, process in self._running:
            if isinstance(process.args, list) and f"--listen {address}" in process.args[-1]:
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=100)
        self._running = [entry for entry in self._running if entry[1].poll() is None]

    def close(self) -> None:
        for _, process in self._running:
            process.kill()
            process.communicate()

    def _start(self, command: str, shown: Shown) -> None:
        if "--listen" not in command:
            self.stop("kbroker")
            command += "" if "server.properties" in command else f" --listen {self.address}"
        else:
            self._stop_at(command.partition("--listen ")[2].split()[0])
        process = self._serve("kbroker", command)
        assert process.stdout is not None
        said = "".join(process.stdout.readline() for _ in shown.output.splitlines())
        assert settled(said) == settled(shown.output), said

    def _serve(self, kind: str, command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.directory,
            env=environment(**_BY_HAND_ONLY),
            stdout=subprocess.PIPE if kind == "kbroker" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._running.append((kind, process))
        return process

    def _said(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.directory,
            env=environment(KBROKER_BOOTSTRAP=self.address, **self.settings),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_LONGEST_S,
            check=False,
        )
        return done.stdout

    def _port(self, found: re.Match[str]) -> str:
        return str(self._ports[int(found[0])])


def unvarying(text: str) -> str:
    """Settled, and without ids and choices of chance; a port has four or five digits."""
    text = re.sub(r"\bcluster [\w-]{22}\b", "cluster ID", settled(text))
    text = re.sub(r"no leader: .*", "no leader: PARTITIONS", text)
    text = re.sub(r"^(\w+ +)\d+(?= +-1 )", r"\1PARTITION", text, flags=re.MULTILINE)
    text = re.sub(r"\d+ changed", "N changed", text)
    text = re.sub(_MOVED, r"\1 PARTITION BROKERS", text, flags=re.MULTILINE)
    text = re.sub(r"127\.0\.0\.1:\d+|ADDRESS", "ADDRESS", text)
    text = re.sub(r" {2,}", "  ", text)
    return re.sub(r" +$", "", without_measures(text), flags=re.MULTILINE)


def without_measures(text: str) -> str:
    """Without what a job of the pipeline measures: sizes, rates, times, and its progress."""
    text = re.sub(r"^(archive: .*|\w+: .* (to go|nothing to do))\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\bin \d+ batch.*", "in N batches, N rows/s", text)
    text = re.sub(r"( rows| round), .* rows/s", r"\1, N rows/s", text)
    text = re.sub(r"\b[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}\b", "ID", text)
    text = re.sub(r"\b\d{4}-\d\d-\d\dT\d\d\b", "HOUR", text)
    text = re.sub(r"\b(\d+\.\d+|\d{4,}|\d{1,3}(,\d{3})+)\b", "N", text)
    return re.sub(r"\b\d+(?= files?\b|  N  HOUR)", "N", text)  # more when an hour ends meanwhile
