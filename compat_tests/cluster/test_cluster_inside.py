"""A cluster of kbroker and Apache Kafka 3.9.2 whose brokers begin to talk to each other by TLS and with
logins, while it is used.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compat_tests.clients.writers import LibrdkafkaWriter
from compat_tests.cluster.inside import PASSWORD, USER, Inside
from compat_tests.cluster.processes import Cluster
from compat_tests.cluster.replicas import (
    SETTINGS,
    await_in_sync,
    await_leaders_without,
    await_same_logs,
    create,
)
from compat_tests.faults.kill_rounds import check, read_all
from compat_tests.running.waiting import until
from compat_tests.running.zookeeper_servers import ZooKeeperServers

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]  # a JVM starts four times

KBROKER, APACHE = 1, 3
KINDS = ["kbroker", "kbroker", "apache"]
TOPIC = "moved"


def test_brokers_move_from_plaintext_to_sasl_ssl_one_by_one(
    target: str, zookeeper: ZooKeeperServers, tmp_path: Path
) -> None:
    """Without a failed produce; then brokers are killed, and one forgets its password."""
    if target != "kbroker":
        pytest.skip("puts kbroker and Apache Kafka together")
    inside = Inside(tmp_path, "SASL_SSL", "SCRAM-SHA-512")
    with Cluster(
        tmp_path, zookeeper, KINDS, SETTINGS, "/inside", own_settings=inside.plain_listener
    ) as cluster:
        inside.make_user(cluster)
        cluster.start()
        create(cluster, TOPIC, [1, 2, 3], [3, 1, 2])
        writer = LibrdkafkaWriter(cluster.bootstrap, TOPIC, 300)
        heard = {"kbroker.inter.broker.listeners": "PLAINTEXT,INSIDE"}  # Apache Kafka hears on all
        for more in (inside.offered() | heard, {"inter.broker.listener.name": "INSIDE"}):
            for number in cluster.ids:
                cluster.set_up(number, **inside.listeners(number), **more)
                cluster.restart(number)
                await_in_sync(cluster, TOPIC)
        assert listeners_of(cluster, KBROKER)["INSIDE"] == "SASL_SSL"
        for controller in (APACHE, KBROKER):
            cluster.make_controller(controller)
            cluster.kill(controller)
            await_leaders_without(cluster, TOPIC, controller)
            cluster.start(controller)
            await_in_sync(cluster, TOPIC)

        forget_password(cluster, inside, KBROKER)

        writer.finish()
        assert writer.errors == []
        await_same_logs(cluster, TOPIC)
        check(writer, read_all(cluster.bootstrap, TOPIC))
        for broker in cluster.brokers.values():
            assert PASSWORD not in broker.log_text()


def listeners_of(cluster: Cluster, number: int) -> dict[str, str]:
    """The security protocol of each listener that a broker has registered."""
    registered = json.loads(cluster.tree.get(f"/brokers/ids/{number}") or b"{}")
    return dict(registered["listener_security_protocol_map"])


def forget_password(cluster: Cluster, inside: Inside, number: int) -> None:
    """A broker that the others do not let in says so in one line, and follows as soon as it knows
    the password again.
    """
    heard = {"kbroker.inter.broker.listeners": ""}
    cluster.set_up(number, **inside.common("forgotten"), **heard)
    cluster.stop(number)
    cluster.make_controller(APACHE)
    cluster.start(number)  # and answers the controller's login before all else
    said = "no connection: the broker at 127.0.0.1:"
    until(lambda: said in cluster.brokers[number].log_text(), "it says that it is not let in")
    lines = [line for line in cluster.brokers[number].log_text().splitlines() if said in line]
    assert len({line.partition(said)[2] for line in lines}) == len(lines) <= 2, lines
    assert f"refuses the login of {USER} with {inside.mechanism} (" in lines[0]
    cluster.set_up(number, **inside.common())
    cluster.restart(number)
    await_in_sync(cluster, TOPIC)
