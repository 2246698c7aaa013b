"""The settings that client libraries get for a test's broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.config.jaas import parse_jaas
from kbroker.testing.client_settings import Access, quoted
from kbroker.testing.secured_broker import SecuredBroker

PASSWORD = 'a"b\\c;'


def access(directory: Path, *, ca: str | None = "ca.pem", has_users: bool = True) -> Access:
    users = {"ann": PASSWORD, "bob": "x"} if has_users else {}
    return Access("127.0.0.1:9092", ca, users, str(directory))


def test_each_library_gets_the_names_that_it_knows(tmp_path: Path) -> None:
    ann = access(tmp_path)

    librdkafka = ann.client("ann", "confluent-kafka")
    assert librdkafka == {
        "bootstrap.servers": "127.0.0.1:9092",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "ca.pem",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": PASSWORD,
    }
    assert ann.client("bob", "kafka-python") == {
        "bootstrap_servers": "127.0.0.1:9092",
        "security_protocol": "SASL_SSL",
        "ssl_cafile": "ca.pem",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "bob",
        "sasl_plain_password": "x",
    }
    java = ann.client("ann", "java")
    (module,) = parse_jaas(java["sasl.jaas.config"])
    assert module.options == {"username": "ann", "password": PASSWORD}
    assert java["ssl.truststore.type"] == "PEM"


def test_kcat_reads_a_password_in_a_file_of_its_own(tmp_path: Path) -> None:
    ann = access(tmp_path, ca=None)

    arguments = ann.client("ann", "kcat")

    assert arguments == ann.client("ann", "kcat")
    assert PASSWORD not in " ".join(arguments)
    assert f"sasl.password={PASSWORD}\n" in Path(arguments[1]).read_text()
    assert len(list(tmp_path.iterdir())) == 1


def test_tls_and_users_go_without_each_other(tmp_path: Path) -> None:
    assert access(tmp_path, ca=None).client("ann", "aiokafka")["security_protocol"] == (
        "SASL_PLAINTEXT"
    )
    assert access(tmp_path, has_users=False).client(None, "java")["security.protocol"] == "SSL"


def test_a_user_or_a_library_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"^'eve' is not a user of this broker, which has ann, bob$"
    ):
        access(tmp_path).client("eve", "java")
    with pytest.raises(ValueError, match=r"^None is not a user"):
        access(tmp_path).client(None, "java")
    with pytest.raises(ValueError, match=r"which has none: give None$"):
        access(tmp_path, has_users=False).client("ann", "java")
    with pytest.raises(ValueError, match=r"^'sarama' is not one of confluent-kafka, kafka-python"):
        access(tmp_path).client("ann", "sarama")


@pytest.mark.parametrize("name", ["", "a b", 'a"', "a=b", "a,b", "a\nb", "kbroker-testing"])
def test_a_name_that_cannot_be_a_users_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be a user"):
        SecuredBroker(tmp_path, {name: "secret"}, has_tls=False)


@pytest.mark.parametrize("password", ["", "a\nb"])
def test_a_password_that_cannot_be_one_is_refused_without_it(tmp_path: Path, password: str) -> None:
    with pytest.raises(ValueError, match=r"^the password of ann is empty, or has control"):
        SecuredBroker(tmp_path, {"ann": password}, has_tls=False)


def test_quotes_and_backslashes_stay_in_jaas() -> None:
    (module,) = parse_jaas(f"a.b.PlainLoginModule required password={quoted(PASSWORD)};")

    assert module.options == {"password": PASSWORD}
