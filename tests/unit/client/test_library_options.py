"""kafka-python's names of options mean the same here."""

from __future__ import annotations

import ssl

import pytest

from kbroker.client.client_error import ClientError
from kbroker.client.connection_settings import UNSECURED, Tls
from kbroker.client.library_options import library_settings
from kbroker.client.tls import tls_context
from kbroker.sasl.login import Login


def test_a_login_over_tls_is_understood() -> None:
    found = library_settings(
        {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": "anna",
            "sasl_plain_password": "secret",
            "ssl_cafile": "ca.pem",
            "ssl_certfile": "own.pem",
            "ssl_keyfile": "own.key",
            "ssl_password": "phrase",
            "ssl_check_hostname": False,
            "client_id": "me",
            "request_timeout_ms": 3_000,
        }
    )

    assert found.login == Login(mechanism="SCRAM-SHA-256", username="anna", password="secret")
    assert found.tls == Tls(
        ca_file="ca.pem",
        certificate_file="own.pem",
        key_file="own.key",
        key_password="phrase",
        checks_host_name=False,
    )
    assert (found.client_id, found.request_timeout_s) == ("me", 3.0)


def test_no_options_are_no_security() -> None:
    assert library_settings({}) == UNSECURED
    assert library_settings({"ssl_cafile": None}) == UNSECURED


def test_a_context_of_the_caller_is_taken_as_it_is() -> None:
    context = ssl.create_default_context()

    found = library_settings({"security_protocol": "SSL", "ssl_context": context})

    assert found.tls is not None
    assert tls_context(found.tls) is context


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("security_protokol", "unknown property security.protokol, did you mean"),
        ("sasl_kerberos_service_name", "sasl.kerberos.service.name has no effect here"),
    ],
)
def test_what_would_have_no_effect_is_refused(name: str, said: str) -> None:
    with pytest.raises(ClientError, match=said):
        library_settings({name: "x"})
