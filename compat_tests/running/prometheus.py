"""Prometheus as a process of its own, and its tool that checks files."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from compat_tests.running.apache_kafka import free_port
from compat_tests.running.prerequisites import require_program
from compat_tests.running.waiting import until

_HINT = "Debian package prometheus"
_TIMEOUT_S = 30
_DOUBTS = 3  # the exit code for names that are against conventions


class Sample(NamedTuple):
    """A line of a result: its labels and its value of now."""

    labels: dict[str, str]
    value: float


class Prometheus(NamedTuple):
    """A running Prometheus."""

    url: str

    def get(self, path: str, **query: str) -> Any:
        """The data that its API has at a path."""
        with urlopen(f"{self.url}/api/v1/{path}?{urlencode(query)}", timeout=_TIMEOUT_S) as answer:
            return json.load(answer)["data"]

    def query(self, expr: str) -> list[Sample]:
        """The value of an expression now."""
        found = self.get("query", query=expr)["result"]
        return [Sample(each["metric"], float(each["value"][1])) for each in found]


@contextmanager
def running_prometheus(config: Path) -> Iterator[Prometheus]:
    """Prometheus with this configuration, its data beside that file. Raises NotAvailableError."""
    program = require_program("prometheus", _HINT)
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={config.parent / 'prometheus'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--log.level=warn",
    ]
    with (config.parent / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until(lambda: _is_ready(url), "Prometheus is ready")
        yield Prometheus(url)
    finally:
        process.kill()
        process.wait()


def _is_ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/-/ready", timeout=_TIMEOUT_S) as answer:
            return bool(answer.status == 200)
    except (URLError, ConnectionError):
        return False


def promtool(*arguments: str, stdin: str = "", may_doubt: bool = False) -> str:
    """Return the output of promtool. Raises AssertionError for what is wrong, or doubtful unless it
    may be; NotAvailableError without promtool.
    """
    done = subprocess.run(
        [require_program("promtool", _HINT), *arguments],
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode in ((0, _DOUBTS) if may_doubt else (0,)), done.stdout
    return done.stdout
