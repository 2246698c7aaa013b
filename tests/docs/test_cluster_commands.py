"""The commands of the page about clusters print what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.commands.command_line import FINE, run
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.shared_zookeeper import fresh_chroot
from compat_tests.running.zookeeper_servers import java_command
from tests.docs.pages import section, shown_commands, text_of
from tests.docs.terminals import Terminals, what_may_be_missing

CLUSTERS = text_of("clusters")
BY_TURNS = "### From Apache Kafka, one broker after the other"


def test_a_cluster_in_one_process_prints_what_is_shown(terminals: Terminals) -> None:
    commands = shown_commands(CLUSTERS.partition("\n## Brokers over a ZooKeeper\n")[0])

    assert len(commands) == 3
    for shown in commands:
        terminals.play(shown)


@pytest.mark.java
@pytest.mark.timeout(180)
def test_clusters_over_a_zookeeper_print_what_is_shown(terminals: Terminals) -> None:
    with what_may_be_missing():
        java_command("", ())
    commands = shown_commands(CLUSTERS.partition(BY_TURNS)[0])

    assert sum("--zookeeper" in shown.command for shown in commands) == 11
    for shown in commands:
        terminals.play(shown)


@pytest.mark.java
@pytest.mark.timeout(180)
def test_a_broker_of_apache_kafka_gives_way_to_one_that_prints_what_is_shown(
    terminals: Terminals,
) -> None:
    with what_may_be_missing():
        port = int(terminals.address.rpartition(":")[2])
        logs = terminals.directory / "kafka-logs"
        patient = {"zookeeper.session.timeout.ms": "18000"}
        apache = ApacheBroker(logs, fresh_chroot(), settings=patient, port=port)
        apache.start()
        made = run("topic", "create", "orders", bootstrap=terminals.address)
        sent = run("produce", "orders", stdin="desk\n", bootstrap=terminals.address)
        apache.stop()
        settings = Path(f"{logs}-apache.properties").read_text().splitlines(keepends=True)
        plain = [each for each in settings if not each.startswith("transaction.")]  # it warns
        (terminals.directory / "server.properties").write_text("".join(plain))

        for shown in shown_commands(section(CLUSTERS, BY_TURNS)):
            terminals.play(shown)
        read = run("consume", "orders", bootstrap=terminals.address)

    assert (made.code, sent.code) == (FINE, FINE)
    assert read.lines() == ["desk"]
