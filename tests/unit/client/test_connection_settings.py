"""Property names of Kafka's clients, as settings and as refusals."""

from __future__ import annotations

import re

import pytest

from kbroker.client.client_error import ClientError
from kbroker.client.connection_settings import (
    UNSECURED,
    ConnectionSettings,
    Tls,
    check_names,
    connection_settings,
    with_one_spelling,
    without_effect,
)
from kbroker.client.exit_code import ExitCode
from kbroker.sasl.login import Login

MODULES = "org.apache.kafka.common.security"
JAAS = f'{MODULES}.plain.PlainLoginModule required username="ann" password="a;b\\"c";'


def settings(**given: str) -> ConnectionSettings:
    return connection_settings({name.replace("_", "."): text for name, text in given.items()})


@pytest.mark.parametrize(
    ("name", "protocol"),
    [
        ("sasl.password", "SASL_SSL"),
        ("ssl.ca.pem", "SSL"),
        ("ssl.truststore.certificates", "SSL"),
        ("ssl.certificate.pem", "SSL"),
        ("ssl.key.location", "SSL"),
        ("ssl.keystore.key", "SSL"),
    ],
)
def test_who_gives_a_secret_or_a_certificate_is_not_left_without_tls(
    name: str, protocol: str
) -> None:
    with pytest.raises(ClientError, match=f"without security.protocol: add .*={protocol}$"):
        connection_settings({name: "x"})


@pytest.mark.parametrize("line", ["Secret99", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC+/"])
def test_what_cannot_be_a_name_is_not_repeated(line: str) -> None:
    with pytest.raises(ClientError, match="give NAME=VALUE") as refused:
        check_names([line], "client.properties")

    assert line not in str(refused.value)


def test_without_properties_a_cluster_is_open() -> None:
    assert settings() == UNSECURED
    assert UNSECURED.protocol == "PLAINTEXT"


def test_librdkafka_and_java_say_the_same() -> None:
    librdkafka = settings(
        security_protocol="sasl_ssl",
        sasl_mechanisms="PLAIN",
        sasl_username="ann",
        sasl_password='a;b"c',
        ssl_ca_location="/ca.pem",
        ssl_certificate_location="/both.pem",
        ssl_key_password="p",
        socket_timeout_ms="1500",
    )
    java = settings(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_jaas_config=JAAS,
        ssl_truststore_type="PEM",
        ssl_truststore_location="/ca.pem",
        ssl_keystore_type="PEM",
        ssl_keystore_location="/both.pem",
        ssl_key_password="p",
        request_timeout_ms="1500",
    )

    assert librdkafka == java
    assert java == ConnectionSettings(
        tls=Tls(ca_file="/ca.pem", certificate_file="/both.pem", key_password="p"),
        login=Login(mechanism="PLAIN", username="ann", password='a;b"c'),
        request_timeout_s=1.5,
    )


@pytest.mark.parametrize(
    ("fields", "password"),
    [
        ("required\n password=secret username=ann ;\n", "secret"),
        ("required username='ann' password='a\"\\'c';", "a\"'c"),
    ],
)
def test_fields_of_a_login_come_in_any_order_and_quotes(fields: str, password: str) -> None:
    found = settings(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_jaas_config=f"{MODULES}.scram.ScramLoginModule {fields}",
    )

    assert found.login == Login(mechanism="SCRAM-SHA-512", username="ann", password=password)


@pytest.mark.parametrize(
    ("mechanism", "text", "is_by_delegation"),
    [
        ("SCRAM-SHA-512", 'tokenauth="true"', True),
        ("SCRAM-SHA-256", "tokenauth=True", True),
        ("SCRAM-SHA-256", 'tokenauth="false"', False),
        ("PLAIN", 'tokenauth="true"', False),
    ],
)
def test_an_entry_says_whether_its_name_is_that_of_a_delegation_token(
    mechanism: str, text: str, is_by_delegation: bool
) -> None:
    found = settings(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_jaas_config=f"{JAAS[:-1]} {text};",
    )

    assert found.login is not None
    assert found.login.is_by_delegation is is_by_delegation


def test_a_password_by_itself_replaces_that_of_a_login_of_java() -> None:
    found = settings(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_jaas_config=JAAS,
        sasl_password="other",
    )

    assert found.login == Login(mechanism="PLAIN", username="ann", password="other")


def test_certificates_may_be_given_as_texts() -> None:
    found = settings(
        security_protocol="SSL",
        ssl_truststore_certificates="CA",
        ssl_keystore_certificate_chain="CHAIN",
        ssl_keystore_key="KEY",
    )

    assert found.tls == Tls(ca_text="CA", certificate_text="CHAIN", key_text="KEY")


@pytest.mark.parametrize("off", ["", "none", "None"])
def test_the_check_of_the_name_is_switched_off(off: str) -> None:
    found = settings(security_protocol="SSL", ssl_endpoint_identification_algorithm=off)

    assert found.tls == Tls(checks_host_name=False)


def test_who_does_not_check_certificates_checks_no_names() -> None:
    found = settings(security_protocol="SSL", enable_ssl_certificate_verification="false")

    assert found.tls == Tls(checks_certificate=False, checks_host_name=False)


def test_secrets_are_not_shown() -> None:
    found = settings(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="ann",
        sasl_password="geheim",
        ssl_certificate_pem="C",
        ssl_key_pem="geheim",
        ssl_key_password="geheim",
    )

    assert "geheim" not in repr(found)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"security_protocol": "TLS"}, "security.protocol=TLS: give one of PLAINTEXT, SSL, SASL_P"),
        ({"sasl_username": "ann"}, "sasl.username has no effect .* add security.protocol=SASL_SSL"),
        ({"ssl_ca_location": "/ca"}, "ssl.ca.location has no effect .* security.protocol=SSL"),
        (
            {"security_protocol": "SASL_SSL"},
            "mechanism is missing: give PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"},
            "sasl.mechanism=GSSAPI is not supported: give PLAIN",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"},
            "sasl.username is missing: give it, or username and password in sasl.jaas.config",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "ann"},
            "sasl.password is missing",
        ),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "PLAIN",
                "sasl_jaas_config": 'com.sun.Krb5LoginModule required username="a" password="geheim";',
            },
            "sasl.jaas.config cannot be read: write .*plain.PlainLoginModule required username",
        ),
        (
            {"security_protocol": "SSL", "ssl_truststore_location": "/t.jks"},
            "/t.jks counts as a store of type JKS, which is not supported: export it with `keytool",
        ),
        (
            {
                "security_protocol": "SSL",
                "ssl_keystore_location": "/k.p12",
                "ssl_keystore_type": "pkcs12",
            },
            "type PKCS12, .* `openssl pkcs12 -in /k.p12 -nodes .* with ssl.keystore.type=PEM",
        ),
        (
            {"security_protocol": "SSL", "ssl_key_location": "/k"},
            "ssl.key.location needs the certificate of the key: give ssl.certificate.location",
        ),
        ({"security_protocol": "SSL", "ssl_key_pem": "geheim"}, "belong together: give both"),
        (
            {"security_protocol": "SSL", "ssl_endpoint_identification_algorithm": "http"},
            "algorithm=http: give https, or none",
        ),
        (
            {"security_protocol": "SSL", "enable_ssl_certificate_verification": "no"},
            "verification=no: give true or false",
        ),
        ({"request_timeout_ms": "5s"}, "request.timeout.ms=5s: give milliseconds, such as 30000"),
        ({"socket_connection_setup_timeout_ms": "0"}, "setup.timeout.ms=0: give milliseconds"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(given: dict[str, str], reason: str) -> None:
    with pytest.raises(ClientError, match=reason) as refused:
        settings(**given)

    assert refused.value.code is ExitCode.USAGE
    assert "geheim" not in refused.value.sentence


def test_two_spellings_are_one_property() -> None:
    assert with_one_spelling({"metadata.broker.list": "h:1", "sasl.mechanisms": "PLAIN"}) == {
        "bootstrap.servers": "h:1",
        "sasl.mechanism": "PLAIN",
    }


def test_names_of_kafkas_clients_are_known() -> None:
    check_names(
        ["group.id", "linger.ms", "sasl.mechanisms", "ssl.cipher.suites", "sasl.kerberos.keytab",
         "schema.registry.url", "ssl.truststore.password", "metadata.broker.list"],
        "-X",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "hint"),
    [("ssl.ca.locaton", "did you mean ssl.ca.location?"), ("qq", "clients have no such property")],
)
def test_a_misspelt_name_is_refused_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(ClientError, match=re.escape(f"f.conf: unknown property {name}")):
        check_names([name], "f.conf")
    with pytest.raises(ClientError, match=re.escape(hint)):
        check_names([name], "f.conf")


def test_properties_about_security_without_effect_are_named() -> None:
    names = ["ssl.cipher.suites", "linger.ms", "sasl.login.class", "sasl.password"]

    assert without_effect(names) == ["sasl.login.class", "ssl.cipher.suites"]
