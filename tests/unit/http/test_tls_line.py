"""HTTP over TLS: what passes, what is refused, and who is cut off."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from kbroker.config.principal_rules import parse_principal_rules
from kbroker.config.tls_settings import Pem, TlsSettings
from kbroker.http.connection import Limits
from kbroker.tls.tls_context import ServerTls, server_context
from tests.fakes.certificates import Authority
from tests.fakes.running.http_here import LARGE_BYTES, HttpHere

IMPATIENT = Limits(look_s=0.05, connections=4, rest_s=0.05)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> ServerTls:
    settings = TlsSettings(
        own=Pem(file=str(authority.issue("broker").pem)),
        key_password=None,
        key_password_setting="",
        trusted=None,
        client_auth="none",
        versions=("TLSv1.2", "TLSv1.3"),
        suites_of_1_2=(),
        suites_of_1_3=(),
        principal_rules=parse_principal_rules("", ""),
    )
    return server_context(settings)


class Asking:
    """A server with TLS, and clients that trust it."""

    def __init__(self, here: HttpHere, authority: Path) -> None:
        self.here = here
        self.context = ssl.create_default_context(cafile=authority)

    def get(self, path: str) -> tuple[int, bytes]:
        connection = HTTPSConnection("127.0.0.1", self.here.port, timeout=30, context=self.context)
        connection.request("GET", path)
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found

    def raw(self) -> ssl.SSLSocket:
        return self.context.wrap_socket(self.here.raw(), server_hostname="127.0.0.1")


@contextmanager
def asking(server: ServerTls, authority: Authority, limits: Limits) -> Iterator[Asking]:
    with HttpHere(limits, tls=lambda: server) as here:
        yield Asking(here, authority.certificate)


def read_all(connection: ssl.SSLSocket) -> bytes:
    received = bytearray()
    while chunk := connection.recv(1 << 20):
        received += chunk
    return bytes(received)


def test_requests_are_answered_over_tls_and_plain_ones_are_sent_there(
    server: ServerTls, authority: Authority
) -> None:
    with asking(server, authority, Limits()) as over_tls:
        assert over_tls.get("/livez") == (200, b"ok\n")
        assert over_tls.get("/large") == (200, b"x" * LARGE_BYTES)
        with over_tls.raw() as connection:  # a body larger than what is kept of one, then another
            body = b"x" * 1_000_000
            head = b"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
            connection.sendall(head % len(body) + body)
            last = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            connection.sendall(last)
            answers = read_all(connection)
            assert answers.startswith(b"HTTP/1.1 405 ")
            assert answers.endswith(b"ok\n")
        with over_tls.here.raw() as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = plain.recv(1 << 16)
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert b"https" in answer
            assert plain.recv(1) == b""


def test_half_handshakes_are_cut_off_and_make_room(server: ServerTls, authority: Authority) -> None:
    with asking(server, authority, IMPATIENT) as over_tls:
        with over_tls.here.raw() as silent, over_tls.here.raw() as half:
            half.sendall(b"\x16\x03\x01\x02\x00\x01")
            assert half.recv(1) == b""
            assert silent.recv(1) == b""
        strangers = [over_tls.here.raw() for _ in range(IMPATIENT.connections)]
        for each in strangers:
            each.sendall(b"\x16\x03\x01\x02\x00\x01")
        while True:
            try:
                assert over_tls.get("/livez") == (200, b"ok\n")
                break
            except (ssl.SSLError, ConnectionError):
                pass  # there is no room yet
        for each in strangers:
            each.close()
        over_tls.here.wait_until_no_connection_is_open()
