"""The doctor before Apache Kafka: faults that were planted, and what is sound."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from compat_tests.commands.command_line import CANNOT_CONNECT, FINE, ITEM_FAILED, run
from compat_tests.conftest import BrokerProcess
from compat_tests.running import apache_kafka
from compat_tests.running.prerequisites import NotAvailableError
from compat_tests.running.shared_zookeeper import fresh_chroot
from compat_tests.running.tls_door import made_certificate

pytestmark = pytest.mark.java

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
ANN = ("sasl.mechanism=PLAIN", "sasl.username=ann", "sasl.password=a-secret")


class Apache(NamedTuple):
    """A broker with a port for each way to get in, and the certificate that it shows."""

    plain: str
    login: str
    tls: str
    certificate: Path


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apache]:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl makes the certificate")
    folder = tmp_path_factory.mktemp("tls")
    certificate = made_certificate(folder, "ours", "IP:127.0.0.1")
    settings = {
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN} user_ann="a-secret";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificate.with_name("ours-both.pem")),
    }
    ports = {name: apache_kafka.free_port() for name in ("SASL_PLAINTEXT", "SSL")}
    try:
        with apache_kafka.broker(settings=settings, listeners=ports) as (plain, _):
            login, tls = (f"127.0.0.1:{port}" for port in ports.values())
            yield Apache(plain, login, tls, certificate)
    except NotAvailableError as error:
        pytest.skip(str(error))


def properties(*given: str) -> list[str]:
    return [word for each in given for word in ("-X", each)]


def found(*options: str) -> tuple[int, dict[str, str]]:
    """The exit code, and the severities of the findings by code."""
    done = run("doctor", *options, "--output", "json")
    assert "Traceback" not in done.err, done.err
    return done.code, {each["code"]: each["severity"] for each in json.loads(done.out)}


def test_nothing_is_found_by_any_way_in_and_nothing_is_left(apache: Apache) -> None:
    login = properties("security.protocol=SASL_PLAINTEXT", *ANN)
    trusting = properties("security.protocol=SSL", f"ssl.ca.location={apache.certificate}")

    assert found("--bootstrap", apache.plain) == (FINE, {})
    assert found("--bootstrap", apache.plain, "--write") == (FINE, {})
    assert found("--bootstrap", apache.login, "--write", *login) == (FINE, {})
    assert found("--bootstrap", apache.tls, "--write", *trusting) == (FINE, {})
    assert "kbroker-doctor" not in run("topic", "list", bootstrap=apache.plain).out
    assert "kbroker-doctor" not in run("group", "list", bootstrap=apache.plain).out


def test_what_keeps_a_client_out_is_named(apache: Apache) -> None:
    shown = run("config", "describe", "--broker", "1", "--output", "jsonl", bootstrap=apache.plain)
    settings = {row["setting"]: row["value"] for row in map(json.loads, shown.lines())}
    controller = settings["controller.quorum.voters"].rpartition("@")[2]
    guessed = (*ANN[:2], "sasl.password=guessed")
    for address, given, code in (
        (apache.login, (), "login-wanted"),
        (apache.login, ("security.protocol=SASL_PLAINTEXT", *guessed), "not-let-in"),
        (apache.plain, ("security.protocol=SASL_PLAINTEXT", *ANN), "no-login-there"),
        (apache.plain, ("security.protocol=SSL",), "tls-on-plain-port"),
        (apache.tls, (), "plain-on-tls-port"),
        (apache.tls, ("security.protocol=SSL",), "tls-refused"),
        (controller, (), "controller-port"),
    ):
        named = found("--bootstrap", address, *properties(*given))
        assert (address, given, named) == (address, given, (CANNOT_CONNECT, {code: "error"}))


def test_an_advertised_broker_of_another_cluster_is_named(apache: Apache) -> None:
    elsewhere = {"advertised.listeners": f"PLAINTEXT://{apache.plain}"}
    with apache_kafka.broker(settings=elsewhere) as (address, _):
        assert found("--bootstrap", address) == (
            ITEM_FAILED,
            {"advertised-other-cluster": "error"},
        )


def test_settings_that_bite_are_named_and_what_they_prevent(apache: Apache) -> None:
    settings = {
        "auto.create.topics.enable": "false",
        "default.replication.factor": "3",
        "group.initial.rebalance.delay.ms": "3000",
        "group.max.session.timeout.ms": "20000",
        "message.max.bytes": "1000",
        "offsets.topic.replication.factor": "3",
        "min.insync.replicas": "4",
    }
    with apache_kafka.broker(settings=settings) as (address, _):
        code, named = found("--bootstrap", address, "--write")

    assert code == ITEM_FAILED
    assert named == {
        "internal-topic-impossible": "error",
        "replicas-above-brokers": "error",
        "group-refused": "error",
        "min-isr-above-default-replicas": "warning",
        "small-messages": "warning",
        "session-bounds": "warning",
        "slow-first-rebalance": "note",
        "no-topics-on-use": "note",
    }


def test_a_zookeeper_is_named_and_topics_that_cannot_be_made_beside_it(
    own_broker: Callable[..., BrokerProcess],
) -> None:
    try:
        chroot = fresh_chroot()
    except NotAvailableError as error:
        pytest.skip(str(error))
    assert found("--bootstrap", chroot.partition("/")[0]) == (
        CANNOT_CONNECT,
        {"zookeeper": "error"},
    )
    settings = ("--override", "offsets.topic.replication.factor=3")
    broker = own_broker("--zookeeper", chroot, *settings)
    assert found("--bootstrap", broker.bootstrap) == (
        ITEM_FAILED,
        {"internal-topic-impossible": "error"},
    )
