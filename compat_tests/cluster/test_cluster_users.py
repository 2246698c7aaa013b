"""Users that any tool writes log in at every broker of a cluster, and no longer once they are gone: by
Apache Kafka's `kafka-configs` through ZooKeeper and through a broker, and by `kbroker user`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from kazoo.client import KazooClient

from compat_tests.commands.tool_runner import run_tool
from compat_tests.conftest import BrokerProcess
from compat_tests.running.apache_kafka import ZOOKEEPER_LINE, free_port
from compat_tests.running.forked_kbroker import ForkedKbroker
from compat_tests.running.shared_zookeeper import fresh_chroot
from compat_tests.running.waiting import until

pytestmark = pytest.mark.java

CONFIG_COMMAND = "kafka.admin.ConfigCommand"
JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_KEYS = r"salt=\S+?,stored_key=\S+?,server_key=\S+?,iterations="
NODE = re.compile(
    rf'\{{"version":1,"config":\{{"SCRAM-SHA-512":"{_KEYS}8192","SCRAM-SHA-256":"{_KEYS}8192"\}}\}}'
)


class Brokers:
    """Two brokers over a ZooKeeper, each with a listener for everybody and one with logins."""

    def __init__(self, folder: Path) -> None:
        self.zookeeper = fresh_chroot()
        self.free, self.inside, self.processes = [], [], []
        for number in (1, 2):
            ports = free_port(), free_port()
            settings = {
                "broker.id": str(number),
                "listeners": f"PLAINTEXT://127.0.0.1:{ports[0]},SASL_PLAINTEXT://127.0.0.1:{ports[1]}",
                "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
                "sasl.jaas.config": JAAS,
                "connection.failed.authentication.delay.ms": "0",
            }
            options = [word for pair in settings.items() for word in ("--override", "=".join(pair))]
            self.processes.append(
                BrokerProcess(
                    folder / str(number) / "data",
                    ("--zookeeper", self.zookeeper, *options),
                    ports[0],
                )
            )
            self.free.append(f"127.0.0.1:{ports[0]}")
            self.inside.append(f"127.0.0.1:{ports[1]}")

    def let_in(self, user: str, password: str) -> bool:
        """Whether all of them do, by either mechanism."""
        return all(
            _is_let_in(address, mechanism, user, password)
            for address in self.inside
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        )

    def keep_out(self, user: str, password: str) -> bool:
        return not any(
            _is_let_in(address, "SCRAM-SHA-512", user, password) for address in self.inside
        )

    def node(self, user: str) -> str:
        client = KazooClient(self.zookeeper)
        client.start()
        try:
            data: bytes = client.get(f"/config/users/{user}")[0]
            return data.decode()
        finally:
            client.stop()
            client.close()


def _is_let_in(address: str, mechanism: str, user: str, password: str) -> bool:
    try:
        KafkaAdminClient(
            bootstrap_servers=address,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=user,
            sasl_plain_password=password,
            bootstrap_timeout_ms=500,
        ).close()
    except KafkaError:
        return False
    return True


@pytest.fixture(scope="module")
def brokers(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    if kind != "kbroker":
        pytest.skip("starts a cluster of kbroker")
    made = Brokers(tmp_path_factory.mktemp("users"))
    with ExitStack() as running:
        for process in made.processes:
            process.start()
            running.callback(process.stop)
        yield made


def kafka_configs(way: tuple[str, str], *change: str) -> None:
    done = run_tool(
        CONFIG_COMMAND, *way, "--alter", "--entity-type", "users", *change, version=ZOOKEEPER_LINE
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("through", ["zookeeper", "bootstrap-server"])
def test_users_of_kafka_configs_log_in_at_every_broker(brokers: Brokers, through: str) -> None:
    way = (f"--{through}", brokers.zookeeper if through == "zookeeper" else brokers.free[0])
    name = ("--entity-name", through)
    credentials = (
        "SCRAM-SHA-256=[iterations=8192,password={0}],SCRAM-SHA-512=[iterations=8192,password={0}]"
    )

    kafka_configs(way, *name, "--add-config", credentials.format("first"))
    until(lambda: brokers.let_in(through, "first"), "the user logs in")
    assert NODE.fullmatch(brokers.node(through))

    kafka_configs(way, *name, "--add-config", credentials.format("second"))
    until(lambda: brokers.let_in(through, "second"), "the user logs in by another password")
    assert brokers.keep_out(through, "first")

    kafka_configs(way, *name, "--delete-config", "SCRAM-SHA-512,SCRAM-SHA-256")
    until(lambda: brokers.keep_out(through, "second"), "the user is gone")


def test_users_of_kbroker_user_log_in_at_every_broker(brokers: Brokers, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("first\n")
    command = ("user", "add", "ann", "--password-file", str(file), "--bootstrap", brokers.free[1])

    assert ForkedKbroker(*command).wait(60) == 0

    until(lambda: brokers.let_in("ann", "first"), "the user logs in")
    assert NODE.fullmatch(brokers.node("ann"))
    assert ForkedKbroker("user", "delete", "ann", "--bootstrap", brokers.free[0]).wait(60) == 0
    until(lambda: brokers.keep_out("ann", "first"), "the user is gone")
