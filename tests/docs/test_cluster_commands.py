"""The commands of the page about clusters print what it shows."""

from __future__ import annotations

import pytest

from compat_tests.zookeeper_servers import java_command
from tests.docs.pages import shown_commands, text_of
from tests.docs.terminals import Terminals, what_may_be_missing

CLUSTERS = text_of("clusters")


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
    commands = shown_commands(CLUSTERS)

    assert sum("--zookeeper" in shown.command for shown in commands) == 7
    for shown in commands:
        terminals.play(shown)
