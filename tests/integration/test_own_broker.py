"""`Broker` starts, serves, and leaves nothing behind, whatever ends it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import TopicAuthorizationFailedError

from kbroker.client.bootstrap import Bootstrap
from kbroker.client.client_quotas import described_quotas
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.connection_settings import ConnectionSettings, Tls
from kbroker.sasl.login import Login
from kbroker.testing import Broker, BrokerError
from kbroker.testing.fresh_topic import create_topic


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where brokers put data that is to go at the end."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    return directory


def port_of(bootstrap: str) -> int:
    return int(bootstrap.rpartition(":")[2])


def is_served(bootstrap: str) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port_of(bootstrap))) == 0


def partitions(bootstrap: str, topic: str) -> set[int]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        found: set[int] = consumer.partitions_for_topic(topic)
    finally:
        consumer.close()
    return found


def test_a_broker_serves_while_its_block_lasts(temporary: Path) -> None:
    with Broker() as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        assert producer.send("orders", b"42").get(timeout=10).offset == 0
        producer.close()
        bootstrap = broker.bootstrap
        assert len(list(temporary.glob("kbroker-*"))) == 1

    assert not is_served(bootstrap)
    assert list(temporary.iterdir()) == []


async def test_a_broker_serves_while_its_asynchronous_block_lasts(temporary: Path) -> None:
    async with Broker() as broker:
        bootstrap = broker.bootstrap
        assert is_served(bootstrap)

    assert not is_served(bootstrap)
    assert list(temporary.iterdir()) == []


def test_a_broker_can_be_started_again() -> None:
    broker = Broker()
    with broker:
        first = broker.bootstrap
    with broker:
        assert is_served(broker.bootstrap)

    assert not is_served(first)


def test_settings_go_by_kafkas_names() -> None:
    with Broker(settings={"num.partitions": 3, "auto.create.topics.enable": False}) as broker:
        create_topic(broker.bootstrap, "orders")

        assert partitions(broker.bootstrap, "orders") == {0, 1, 2}


def test_several_brokers_are_one_cluster() -> None:
    with Broker(brokers=3, settings={"num.partitions": 3}) as broker:
        addresses = broker.bootstrap.split(",")
        create_topic(broker.bootstrap, "orders")

        assert len(set(addresses)) == 3
        assert [partitions(address, "orders") for address in addresses] == [{0, 1, 2}] * 3


def test_each_listener_of_the_settings_has_its_address() -> None:
    settings = {
        "listeners": "A://127.0.0.1:0,B://127.0.0.1:0",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
        "inter.broker.listener.name": "A",
    }
    with Broker(settings=settings) as broker:
        assert [is_served(address) for address in broker.bootstrap.split(",")] == [True, True]


def test_a_directory_of_ones_own_is_kept(tmp_path: Path) -> None:
    with Broker(data=tmp_path / "data") as broker:
        create_topic(broker.bootstrap, "orders")
    with Broker(data=tmp_path / "data") as broker:
        assert partitions(broker.bootstrap, "orders") == {0}


def test_a_taken_port_is_the_brokers_own_sentence(temporary: Path) -> None:
    with Broker() as first:
        port = port_of(first.bootstrap)
        with pytest.raises(
            BrokerError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"
        ):
            Broker(port=port).start()

    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("brokers", [1, 2])
def test_a_taken_port_leaves_no_new_directory_behind(tmp_path: Path, brokers: int) -> None:
    with Broker() as first, pytest.raises(BrokerError, match="Address already in use"):
        Broker(port=port_of(first.bootstrap), data=tmp_path / "data", brokers=brokers).start()

    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("brokers", [0, -1])
def test_a_wrong_number_of_brokers_is_the_brokers_own_sentence(brokers: int) -> None:
    with pytest.raises(BrokerError, match=f"--brokers {brokers} is less than 1"):
        Broker(brokers=brokers).start()


def test_a_wrong_setting_is_the_brokers_own_sentence() -> None:
    with pytest.raises(BrokerError, match=r"num.partitions: Value must be at least 1"):
        Broker(settings={"num.partitions": 0}).start()


def test_a_setting_that_nobody_knows_is_a_warning() -> None:
    broker = Broker(settings={"num.partition": 3})

    with pytest.warns(UserWarning, match=r"num.partition, did you mean num.partitions"), broker:
        pass


def test_the_environment_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "none")
    monkeypatch.setenv("KBROKER_FLUSH", "none")
    monkeypatch.setenv("CLUSTER_ID", "none")

    with Broker() as broker:
        assert is_served(broker.bootstrap)


def test_the_working_directory_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logging.py").write_text("raise SystemExit('this is the one of the tests')")
    monkeypatch.chdir(tmp_path)

    with Broker() as broker:
        assert is_served(broker.bootstrap)


def test_a_broker_that_ended_by_itself_is_told() -> None:
    broker = Broker()
    broker.start()
    found = subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "-f", f"{sys.executable} -P -m kbroker.cli"],
        capture_output=True,
        text=True,
        check=True,
    )
    os.kill(int(found.stdout), signal.SIGKILL)
    os.waitid(os.P_PID, int(found.stdout), os.WEXITED | os.WNOWAIT)

    with pytest.raises(BrokerError, match="ended by itself with exit code -9"):
        broker.stop()


def test_a_broker_with_tls_and_users_lets_in_who_knows_the_password(temporary: Path) -> None:
    password = 'se cret\\"1'
    quotas = ["--user ann producer=10MB/s", "--default ip connections=100"]
    with Broker(tls=True, users={"ann": password, "bob": "other"}, quotas=quotas) as broker:
        login = Login(mechanism="SCRAM-SHA-256", username="bob", password="other")
        settings = ConnectionSettings(tls=Tls(ca_file=broker.ca), login=login)
        with closing(ClusterLinks(Bootstrap(broker.bootstrap, settings))) as links:
            assert described_quotas(links, {}) == [
                ({"user": "ann"}, {"producer_byte_rate": 10 * 1024**2}),
                ({"ip": None}, {"connection_creation_rate": 100.0}),
            ]
        producer = Producer(broker.client("ann", "confluent-kafka"))
        producer.produce("orders", b"42")
        assert producer.flush(20) == 0
        consumer = KafkaConsumer(
            "orders", auto_offset_reset="earliest", **broker.client("bob", "kafka-python")
        )
        assert next(consumer).value == b"42"
        consumer.close()

        errors: list[int] = []
        wrong = {**broker.client("ann", "confluent-kafka"), "sasl.password": "other"}
        stranger = Producer({**wrong, "error_cb": lambda error: errors.append(error.code())})
        while not errors:
            stranger.poll(0.1)
        assert errors[0] == KafkaError._AUTHENTICATION
        assert Path(broker.ca).read_text().startswith("-----BEGIN CERTIFICATE")
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):  # it has ended meanwhile
                assert password not in process.read_text(errors="replace")

    assert list(temporary.iterdir()) == []


def test_users_may_do_what_rules_in_the_words_of_the_command_allow(temporary: Path) -> None:
    rules = [
        "allow ann write,create --topic orders- --prefixed",
        "allow User:bob read --topic orders-eu",
    ]
    with Broker(users={"ann": "secret", "bob": "other"}, acls=rules) as broker:
        ann = KafkaProducer(**broker.client("ann", "kafka-python"))
        ann.send("orders-eu", b"42").get(20)
        ann.close()
        options = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
        bob = KafkaConsumer(**options, **broker.client("bob", "kafka-python"))
        bob.assign([TopicPartition("orders-eu", 0)])
        assert next(bob).value == b"42"
        bob.close()
        plain = {"enable_idempotence": False}
        refused = KafkaProducer(**plain, **broker.client("bob", "kafka-python"))
        with pytest.raises(TopicAuthorizationFailedError):
            refused.send("orders-eu", b"43").get(20)
        refused.close()

    with pytest.raises(ValueError, match="'allow ann' is not a rule: no resource is given"):
        Broker(users={"ann": "secret"}, acls=["allow ann"])
    with pytest.raises(ValueError, match="acls need users"):
        Broker(acls=[])


def test_a_user_that_cannot_be_one_is_refused_before_a_broker_starts(temporary: Path) -> None:
    with pytest.raises(ValueError, match="'a b' cannot be a user"), Broker(users={"a b": "x"}):
        pass
    with pytest.raises(ValueError, match="no such quota: fast"):
        Broker(quotas=["--user ann fast=1"])
    with pytest.raises(ValueError, match="quotas are given as a list of lines"):
        Broker(quotas="--user ann producer=1")

    assert list(temporary.iterdir()) == []
