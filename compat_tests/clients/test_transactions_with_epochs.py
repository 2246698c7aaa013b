"""Transactions that have an epoch each (KIP-890), once a cluster has settled on them: with Java's
clients that know them, and with those that do not.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.clients.every_client import create_topic
from compat_tests.clients.java_clients import kept_classes, run_java
from compat_tests.commands.tool_runner import run_tool
from compat_tests.conftest import BrokerProcess
from compat_tests.running import apache_kafka

pytestmark = pytest.mark.java

FEATURE = "transaction.version"
OLD = "2.8.2"


def set_level(bootstrap: str, direction: str, level: int) -> str:
    done = run_tool(
        "org.apache.kafka.tools.FeatureCommand",
        "--bootstrap-server",
        bootstrap,
        direction,
        "--feature",
        f"{FEATURE}={level}",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def levels_in_log(broker: BrokerProcess) -> list[int]:
    """The levels of the protocol that transactions in the log were made with, in Kafka's words."""
    logs = [str(path) for path in broker.data.glob("__transaction_state-*/*.log")]
    done = run_tool(
        "org.apache.kafka.tools.DumpLogSegments",
        "--transaction-log-decoder",
        "--files",
        ",".join(path for path in logs if Path(path).stat().st_size),
    )
    assert done.returncode == 0, done.stderr
    return [
        int(part.partition(",")[0].partition("}")[0])
        for part in done.stdout.split('clientTransactionVersion":')[1:]
    ]


def test_javas_clients_of_all_ages_write_in_transactions_at_every_level(
    own_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    classes = kept_classes("Transactions", OLD)
    broker = own_broker()

    def story(version: str, name: str) -> None:
        for each in (name, f"{name}-out"):
            create_topic(broker.bootstrap, each, 1)
        told = run_java(classes, version, "Transactions", broker.bootstrap, name)
        assert f"{version} is done" in told.decode()

    set_level(broker.bootstrap, "upgrade", 2)
    story(apache_kafka.NEWEST, f"{topic}-new")
    assert levels_in_log(broker).count(2) > 10
    story(OLD, f"{topic}-old")
    broker.stop(signal.SIGKILL)
    broker.start()
    story(apache_kafka.NEWEST, f"{topic}-again")
    set_level(broker.bootstrap, "downgrade", 0)
    story(apache_kafka.NEWEST, f"{topic}-down")
    assert "Traceback" not in broker.log_text()
