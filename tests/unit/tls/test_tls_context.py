"""Contexts of listeners out of PEM files and texts, and the sentences of files that are no use."""

from __future__ import annotations

import os
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.tls_settings import ClientTls, Pem, tls_settings
from kbroker.errors import ConfigError
from kbroker.tls.certificate import first_certificate
from kbroker.tls.tls_context import ServerTls, client_context, server_context
from tests.fakes.certificates import Authority, Issued

SECRET = "se.cret"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pems"))


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Issued:
    return authority.issue("broker", subject="/O=Acme/CN=b1", password=SECRET)


def context_of(texts: dict[str, str]) -> ServerTls:
    settings = {"listeners": "SSL://localhost:0", **texts}
    return server_context(tls_settings(KafkaConfig(settings), "SSL"))


def test_a_context_is_made_of_files_and_of_texts(authority: Authority, broker: Issued) -> None:
    by_file = broker.settings() | authority.trust() | {"ssl.client.auth": "requested"}
    by_text = {
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        "ssl.keystore.key": broker.key.read_text(),
        "ssl.keystore.certificate.chain": broker.certificate.read_text(),
        "ssl.truststore.certificates": authority.certificate.read_text(),
        "ssl.client.auth": "required",
    }
    one = context_of({**by_file, "ssl.key.password": SECRET})
    two = context_of({**by_text, "ssl.key.password": SECRET, "ssl.enabled.protocols": "TLSv1.2"})

    assert (one.context.verify_mode, two.context.verify_mode) == (
        ssl.CERT_OPTIONAL,
        ssl.CERT_REQUIRED,
    )
    assert one.context.cert_store_stats()["x509"] == two.context.cert_store_stats()["x509"] == 1
    assert two.context.maximum_version == ssl.TLSVersion.TLSv1_2
    assert one.certificate == two.certificate
    assert (one.certificate.subject, one.certificate.issuer) == ("CN=b1,O=Acme", "CN=authority")
    assert one.certificate.alternative_names == {"DNS:localhost", "IP:127.0.0.1", "IP:::1"}
    assert timedelta(days=29) < one.certificate.ends - datetime.now(UTC) < timedelta(days=31)


def test_files_that_are_no_use_are_named_with_what_mends_them(
    authority: Authority, broker: Issued, tmp_path: Path
) -> None:
    other = authority.issue("other")
    stranger, no_key, broken = (tmp_path / name for name in ("mixed.pem", "no.pem", "broken.pem"))
    stranger.write_text(other.key.read_text() + broker.certificate.read_text())
    no_key.write_text(broker.certificate.read_text())
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    broken.write_text(other.key.read_text() + other.certificate.read_text().replace("M", "N"))

    def file(path: Path, **more: str) -> dict[str, str]:
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path), **more}

    trusted = {"ssl.client.auth": "required", "ssl.truststore.type": "PEM", **file(other.pem)}
    refused = [
        (file(Path("/missing.pem")), "ssl.keystore.location=/missing.pem cannot be used: No such"),
        (file(pipe), "cannot be used: it is a pipe or a device"),
        (file(tmp_path), "Is a directory"),
        (file(no_key), "it has 0 of -----BEGIN PRIVATE KEY-----, instead of one"),
        (file(broken), "the certificate cannot be read"),
        (file(stranger), "the key is not that of the certificate of CN=b1,O=Acme"),
        (file(broker.pem), "the key is encrypted: set ssl.key.password"),
        (
            {**file(broker.pem), "listener.name.ssl.ssl.key.password": f"no{SECRET}"},
            "listener.name.ssl.ssl.key.password is not the password of the key",
        ),
        (
            {**trusted, "ssl.truststore.location": str(other.key)},
            f"ssl.truststore.location={other.key} cannot be used: it has no -----BEGIN CERT",
        ),
    ]
    for texts, sentence in refused:
        with pytest.raises(ConfigError) as caught:
            context_of(texts)
        assert sentence in str(caught.value)
        assert SECRET not in str(caught.value)


def test_a_certificate_has_its_time(authority: Authority) -> None:
    sound = first_certificate(authority.certificate.read_text())
    expired = context_of(authority.issue("expired", days=-1).settings()).certificate
    now = datetime.now(UTC)

    assert sound.fault(now) is None
    assert expired.fault(now) == f"has expired at {expired.ends:%Y-%m-%d %H:%M} UTC"
    assert "is not valid before" in str(sound.fault(now - timedelta(days=2)))


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """The server's side of a connection to `host`."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    accepted = server.wrap_bio(there, back, server_side=True)
    connected = client.wrap_bio(back, there, server_hostname=host)
    waiting = [connected, accepted]
    while waiting:
        try:
            waiting[0].do_handshake()
            waiting.pop(0)
        except ssl.SSLWantReadError:
            waiting.reverse()
    return accepted


def test_a_client_shows_its_certificate_and_knows_whom_it_trusts(
    authority: Authority, broker: Issued
) -> None:
    server = context_of(
        authority.issue("server").settings() | authority.trust() | {"ssl.client.auth": "required"}
    ).context
    settings = ClientTls(
        own=Pem(setting="own", file=str(broker.pem)),
        key_password=SECRET,
        key_password_setting="its.password",
        trusted=Pem(file=str(authority.certificate)),
        checks_host_name=True,
        versions=("TLSv1.2",),
        suites_of_1_2=("ECDHE-ECDSA-AES128-GCM-SHA256",),
        suites_of_1_3=(),
    )
    accepted = handshake(server, client_context(settings), "127.0.0.1")

    assert accepted.cipher() == ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLSv1.2", 128)
    shown = first_certificate(
        ssl.DER_cert_to_PEM_cert(accepted.getpeercert(binary_form=True) or b"")
    )
    assert shown.subject == "CN=b1,O=Acme"
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for 'other'"):
        handshake(server, client_context(settings), "other")
    handshake(server, client_context(replace(settings, checks_host_name=False)), "other")
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        handshake(server, client_context(replace(settings, trusted=None)), "127.0.0.1")
    with pytest.raises(
        ConfigError, match=f"^own={broker.pem} cannot be used: .*its.password is not"
    ):
        client_context(replace(settings, key_password="other"))
