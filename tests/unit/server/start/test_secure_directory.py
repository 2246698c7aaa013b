"""What `--secure DIR` makes, and finds again."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kbroker.certificates.certificate_directory import CertificateDirectoryError
from kbroker.client.connection_settings import connection_settings
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.properties_file import parse_properties
from kbroker.server.start.secure_directory import (
    SecureDirectory,
    hosts_of_clients,
    secure_directory,
)


def secured(path: Path, *addresses: str) -> SecureDirectory:
    return secure_directory(
        str(path),
        addresses or ("127.0.0.1:9092",),
        hosts=("broker.example",),
        machine="machine",
        now=datetime.now(UTC),
    )


def test_a_directory_is_made_once_and_used_from_then_on(tmp_path: Path) -> None:
    first = secured(tmp_path / "d", "127.0.0.1:1", "[::1]:2")
    again = secured(tmp_path / "d", "127.0.0.1:1", "[::1]:2")

    assert first.made == ["ca.pem", "ca.key", "broker.pem", "admin.properties"]
    assert again == first._replace(made=[])
    assert first.settings["listeners"] == "SASL_SSL://127.0.0.1:1,SASL_SSL2://[::1]:2"
    config = KafkaConfig.for_profile("dev", first.settings)
    assert {each.security_protocol for each in config.end_points()} == {"SASL_SSL"}
    client = connection_settings(parse_properties(Path(first.admin_file).read_text()))
    assert client.protocol == "SASL_SSL"
    assert client.login is not None
    assert config.security.authorizer_class_name == "kafka.security.authorizer.AclAuthorizer"
    assert config.kbroker.kbroker_first_user == f"admin:{client.login.password}"
    assert client.login.password not in repr(client)
    assert Path(first.admin_file).stat().st_mode & 0o777 == 0o600
    with pytest.raises(CertificateDirectoryError, match=r"broker.pem is not for other.example"):
        secure_directory(
            str(tmp_path / "d"),
            (":1",),
            hosts=["other.example"],
            machine="m",
            now=datetime.now(UTC),
        )


def test_the_admin_is_a_super_user_beside_those_that_settings_have(tmp_path: Path) -> None:
    path = str(tmp_path / "d")
    given = {"now": datetime.now(UTC), "machine": "m", "hosts": ()}
    assert secured(tmp_path / "d").settings["super.users"] == "User:admin"

    written = {"authorizer.class.name": "", "super.users": "User:ops;User:CN=b,O=x;"}
    settings = secure_directory(path, (":1",), written=written, **given).settings  # type: ignore[arg-type]

    assert settings["authorizer.class.name"] == ""
    assert settings["super.users"] == "User:ops;User:CN=b,O=x;User:admin"


def test_a_directory_is_refused_if_its_parts_do_not_belong_together(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    secured(one)
    secured(other)

    (one / "admin.properties").write_text("security.protocol=SASL_SSL\n")
    with pytest.raises(CertificateDirectoryError, match=r"has no sasl.jaas.config with a username"):
        secured(one)
    (one / "broker.pem").write_bytes((other / "broker.pem").read_bytes())
    with pytest.raises(CertificateDirectoryError, match=r"broker.pem is not signed by ca.pem"):
        secured(one)
    (other / "ca.key").unlink()  # it may be kept elsewhere, as nothing is to be signed
    assert secured(other).made == []


def test_certificates_are_for_all_names_that_settings_give_to_clients() -> None:
    settings = {
        "listeners": "A://:1,B://[::1]:2",
        "advertised.listeners": "A://a.example:1,B://[::1]:2",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
        "kbroker.advertise": "10.0.0.7:9092",
    }
    assert hosts_of_clients(KafkaConfig.for_profile("dev", settings)) == [
        "::1", "a.example", "10.0.0.7",
    ]  # fmt: skip
