"""The page about monitoring: what it shows is printed, and its checks are those of a broker."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from compat_tests.running.apache_kafka import free_port
from kbroker.cli.broker.trace_lines import HEAD
from kbroker.cli.metrics.alert_rules import ALERTS
from kbroker.cli.top.lines import head_line
from kbroker.cli.top.tables import GROUPS
from kbroker.console.rates import Pace
from kbroker.http.health import CHECKS
from tests.docs.pages import section, shown_commands, text_of
from tests.docs.terminals import run
from tests.faults.running_broker import RunningBroker

PAGE = text_of("monitoring")


def test_commands_print_what_is_shown(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("no curl on PATH (Debian package curl)")
    port = str(free_port())
    listener = f"kbroker.http.listeners=127.0.0.1:{port}"
    broker = RunningBroker(tmp_path / "data", "--override", listener).start()
    try:
        for shown in shown_commands(PAGE):
            command = shown.command.replace("8080", port).replace(
                "curl", "curl --no-progress-meter"
            )
            assert run(["bash", "-c", command], tmp_path) == shown.output.replace("8080", port)
    finally:
        broker.stop()


def test_followed_requests_stand_under_the_heads_of_the_page() -> None:
    assert f"{HEAD}\n" in section(PAGE, "## Who asks for what")


def test_groups_stand_under_the_heads_of_the_page_and_all_paces_are_there() -> None:
    shown = section(PAGE, "## On a terminal")

    assert f"{head_line(GROUPS, 80, 1, is_reversed=False).rstrip()}\n" in shown
    assert re.findall(r"^\| [^|]+ \| `([a-z_]+)` \|", shown, re.M) == [pace.value for pace in Pace]


def test_the_checks_of_the_page_are_those_of_a_broker() -> None:
    assert tuple(re.findall(r"^\| `([a-z ]+)` \|", section(PAGE, "## Health"), re.M)) == CHECKS


def test_the_alerts_of_the_page_are_those_that_are_printed() -> None:
    shown = re.findall(
        r"^\| `(Kafka\w+)` \| (\w+) \| (\w+) \|", section(PAGE, "### Prometheus and Grafana"), re.M
    )

    assert shown == [(alert.name, alert.severity, alert.lasts) for alert in ALERTS]
