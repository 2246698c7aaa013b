"""The first bytes of an answer that is none, and what can be read without `select`."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

from kbroker.client.broker_link import readable
from kbroker.client.client_error import ClientError
from kbroker.client.connection_settings import UNSECURED, ConnectionSettings, Tls
from kbroker.client.link_refusals import check_first_bytes, login_hint, no_tls, tls_hint
from kbroker.sasl.login import Login

LOGIN = Login(mechanism="PLAIN", username="ann", password="x")


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        (UNSECURED, "give security.protocol=SSL, or SASL_SSL with a login, and ssl.ca.location"),
        (ConnectionSettings(login=LOGIN), "give security.protocol=SASL_SSL, and ssl.ca.location"),
    ],
)
def test_a_port_that_speaks_tls_is_recognised(settings: ConnectionSettings, advice: str) -> None:
    with pytest.raises(ClientError, match=f"cannot connect to h:1: this port speaks TLS: {advice}"):
        check_first_bytes("h:1", b"\x15\x03\x03\x00", settings)
    assert advice in tls_hint(settings)


def test_a_web_server_is_recognised() -> None:
    with pytest.raises(ClientError, match="a web server listens there, not a Kafka broker"):
        check_first_bytes("h:1", b"HTTP", UNSECURED)


def test_other_bytes_tell_nothing() -> None:
    check_first_bytes("h:1", b"\xff\xff\xff\xff", UNSECURED)
    check_first_bytes("h:1", b"\x15\x03\x03\x00", ConnectionSettings(tls=Tls()))


def test_advice_names_the_protocol_that_would_do() -> None:
    assert no_tls(ConnectionSettings(tls=Tls())).endswith("security.protocol=PLAINTEXT")
    assert no_tls(ConnectionSettings(tls=Tls(), login=LOGIN)).endswith("=SASL_PLAINTEXT")
    assert "security.protocol=SASL_SSL," in login_hint(ConnectionSettings(tls=Tls()))


@dataclass(eq=False)
class Pipe:
    """A pipe that may have been read into memory already, as TLS reads."""

    descriptor: int
    has_bytes: bool = False

    def fileno(self) -> int:
        return self.descriptor


def test_bytes_that_tls_has_decrypted_are_not_waited_for() -> None:
    (silent, silent_end), (written, written_end) = os.pipe(), os.pipe()
    try:
        os.write(written_end, b"x")
        decrypted, waiting, ready = Pipe(silent, has_bytes=True), Pipe(silent), Pipe(written)

        assert readable([decrypted, waiting, ready], None) == [decrypted, ready]
        assert readable([waiting], 0) == []
    finally:
        for descriptor in (silent, silent_end, written, written_end):
            os.close(descriptor)
