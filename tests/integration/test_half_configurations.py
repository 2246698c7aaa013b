"""Settings of security that are half: `kbroker start` refuses each in one sentence, with exit code
2, before it makes or binds anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from kbroker.cli.command_line import run

SASL = "listener.name.sasl_plaintext."
JAAS = f"{SASL}plain.sasl.jaas.config"
ANN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="s3cret";'
TLS = {
    "listeners": "SSL://127.0.0.1:0",
    "security.inter.broker.protocol": "SSL",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "{d}/broker.pem",
}
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "{d}/ca.pem"}
KEY = {"ssl.keystore.location": ""}
LOGIN = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    JAAS: f'{ANN[:-1]} username="ann" password="s3cret";',
}
SCRAM = {"sasl.enabled.mechanisms": "SCRAM-SHA-512"}
CLUSTER = LOGIN | {"zookeeper.connect": "127.0.0.1:1"}
TOKENS = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "https://127.0.0.1:1/keys",
    "sasl.oauthbearer.expected.issuer": "me",
    "sasl.oauthbearer.expected.audience": "kafka",
}
PLAIN_HANDLER = f"{SASL}plain.sasl.server.callback.handler.class"
NONE = ""

ROWS: dict[str, tuple[Mapping[str, str], str]] = {
    # what TLS is made of
    "no key": (TLS | KEY, r"TLS needs a key and its certificate: set ssl.keystore.location"),
    "no file": (
        TLS | {"ssl.keystore.location": "{d}/none.pem"},
        r"ssl.keystore.location={d}/none.pem cannot be used: No such file",
    ),
    "no key in it": (TLS | {"ssl.keystore.location": "{d}/ca.pem"}, r"0 of -----BEGIN PRIVATE KEY"),
    "no certificate": (TLS | {"ssl.keystore.location": "{d}/ca.key"}, r"no -----BEGIN CERTIFICATE"),
    "another key": (
        TLS | {"ssl.keystore.location": "{d}/mixed.pem"},
        r"the key is not that of the certificate of CN=kbroker",
    ),
    "no pass phrase": (
        TLS | {"ssl.keystore.location": "{d}/encrypted.pem"},
        r"the key is encrypted: set ssl.key.password",
    ),
    "wrong pass phrase": (
        TLS | {"ssl.keystore.location": "{d}/encrypted.pem", "ssl.key.password": "s3cret"},
        r"ssl.key.password is not the password of the key",
    ),
    "JKS": (
        TLS | {"ssl.keystore.type": "JKS", "ssl.keystore.location": "/k/store.jks"},
        r"`keytool -importkeystore -srckeystore /k/store.jks .* `openssl pkcs12",
    ),
    "PKCS12": (TLS | {"ssl.keystore.type": "PKCS12"}, r"read by Java only: `openssl pkcs12"),
    "no type": (TLS | {"ssl.keystore.type": NONE}, r"ssl.keystore.type: {d}/broker.pem is read by"),
    "key alone": (TLS | KEY | {"ssl.keystore.key": "s3cret"}, r"belong together: set both"),
    "chain alone": (TLS | KEY | {"ssl.keystore.certificate.chain": "x"}, r"belong together"),
    "no PEM": (
        TLS | KEY | {"ssl.keystore.key": "s3cret", "ssl.keystore.certificate.chain": "x"},
        r"ssl.keystore.certificate.chain cannot be used: it has no -----BEGIN CERTIFICATE",
    ),
    "file and text": (TLS | {"ssl.keystore.key": "s3cret"}, r"exclude each other: remove one"),
    "store password": (TLS | {"ssl.keystore.password": "s3cret"}, r"PEM has no such password"),
    "no authority": (
        TLS | {"ssl.client.auth": "required"},
        r"ssl.client.auth=required needs the authority of the clients' certificates",
    ),
    "trust is JKS": (
        TLS | TRUST | {"ssl.client.auth": "required", "ssl.truststore.type": "JKS"},
        r"`keytool -list -rfc -keystore",
    ),
    "no trust file": (
        TLS | TRUST | {"ssl.client.auth": "required", "ssl.truststore.location": "{d}/none.pem"},
        r"ssl.truststore.location={d}/none.pem cannot be used: No such file",
    ),
    "client auth": (TLS | {"ssl.client.auth": "maybe"}, r"ssl.client.auth: .*required"),
    "its own client auth": (
        TLS | {"listener.name.ssl.ssl.client.auth": "maybe"},
        r"listener.name.ssl.ssl.client.auth: ",
    ),
    "old version": (TLS | {"ssl.enabled.protocols": "TLSv1.1"}, r"only TLSv1.2 and TLSv1.3"),
    "unknown suite": (TLS | {"ssl.cipher.suites": "TLS_AES"}, r"no such suite is served"),
    "no suite of it": (
        TLS | {"ssl.enabled.protocols": "TLSv1.2", "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"},
        r"none is of TLSv1.2",
    ),
    "rules": (TLS | {"ssl.principal.mapping.rules": "RULE:x"}, r"ssl.principal.mapping.rules"),
    "principals by Java": (
        TLS | {"principal.builder.class": "org.example.Builder"},
        r"principal.builder.class: Java classes are not served",
    ),
    # logins
    "GSSAPI by default": (
        {key: text for key, text in LOGIN.items() if key != "sasl.enabled.mechanisms"},
        r"offers logins by GSSAPI, which kbroker does not serve",
    ),
    "no mechanism": (LOGIN | {"sasl.enabled.mechanisms": NONE}, r"name at least one of PLAIN"),
    "unknown mechanism": (
        LOGIN | {"sasl.enabled.mechanisms": "SCRAM-SHA-1"},
        r"no such mechanism is served, did you mean SCRAM-SHA-",
    ),
    "no users": (
        {key: text for key, text in LOGIN.items() if key != JAAS},
        rf"{JAAS} names no users of PLAIN",
    ),
    "empty JAAS": (LOGIN | {JAAS: NONE}, rf"{JAAS} cannot be read: it has no login module"),
    "users for all listeners": (
        {key: text for key, text in LOGIN.items() if key != JAAS} | {"sasl.jaas.config": ANN},
        r"; sasl.jaas.config is not read for the logins of a listener",
    ),
    "JAAS of SCRAM": (LOGIN | {JAAS: "a.ScramLoginModule required;"}, r"is not for PLAIN"),
    "broken JAAS": (LOGIN | {JAAS: ANN[:-1]}, r"the semicolon at the end is missing"),
    "two modules": (LOGIN | {JAAS: f"{ANN} {ANN}"}, r"has 2 login modules: it takes one"),
    "passwords by Java": (
        LOGIN | {PLAIN_HANDLER: "org.example.Handler"},
        rf"{PLAIN_HANDLER}: Java classes are not served: name a Python function as module:name",
    ),
    "no such function": (LOGIN | {PLAIN_HANDLER: "none:check"}, r"none cannot be imported"),
    "handler of SCRAM": (
        LOGIN | SCRAM | {f"{SASL}scram-sha-512.sasl.server.callback.handler.class": "os:getcwd"},
        r"SCRAM checks logins by the users of the cluster",
    ),
    "renewal": (LOGIN | {"connections.max.reauth.ms": "soon"}, r"connections.max.reauth.ms"),
    "first user": (
        LOGIN | {"kbroker.first.user": "s3cret"},
        r"kbroker.first.user is not NAME:PASS",
    ),
    "no keys of tokens": (
        LOGIN | TOKENS | {"sasl.oauthbearer.jwks.endpoint.url": NONE},
        r"sasl.oauthbearer.jwks.endpoint.url",
    ),
    "no audience": (
        LOGIN | TOKENS | {"sasl.oauthbearer.expected.audience": NONE},
        r"sasl.oauthbearer.expected.audience",
    ),
    "no issuer": (
        LOGIN | TOKENS | {"sasl.oauthbearer.expected.issuer": NONE},
        r"sasl.oauthbearer.expected.issuer",
    ),
    "tokens by Java": (
        LOGIN
        | TOKENS
        | {f"{SASL}oauthbearer.sasl.server.callback.handler.class": "org.example.Handler"},
        r"classes of Java are not run here",
    ),
    # among brokers
    "no such protocol": (
        {"listeners": "IN://127.0.0.1:0", "listener.security.protocol.map": "IN:TLS"},
        r"listener.security.protocol.map: IN:TLS is not of the form",
    ),
    "no protocol": ({"listeners": "IN://127.0.0.1:0"}, r"has no security protocol for IN"),
    "no such listener": (
        LOGIN | {"inter.broker.listener.name": "IN"},
        r"inter.broker.listener.name",
    ),
    "mechanism among brokers": (
        CLUSTER | {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"},
        r"sasl.mechanism.inter.broker.protocol",
    ),
    "no login among brokers": (CLUSTER | {JAAS: ANN}, r"has no user by whom this broker logs in"),
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, a key with a pass phrase, and a key beside another's certificate."""
    path = tmp_path_factory.mktemp("certificates") / "d"
    assert run(["cert", "make", str(path)]) == 0
    text = (path / "broker.pem").read_text()
    key, begin, certificate = text.partition("-----BEGIN CERTIFICATE")
    other = (path / "ca.key").read_text()
    (path / "mixed.pem").write_text(f"{other}{begin}{certificate}")
    encrypted = serialization.load_pem_private_key(key.encode(), None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"right"),
    )
    (path / "encrypted.pem").write_text(f"{encrypted.decode()}{begin}{certificate}")
    return path


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object) -> None:
        raise AssertionError("it was not refused")

    monkeypatch.setattr("kbroker.server.start.launch.run_until_signal", started)


@pytest.mark.parametrize("row", ROWS)
def test_a_half_configuration_is_refused_in_one_sentence(
    row: str, directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, sentence = ROWS[row]
    file, data = tmp_path / "server.properties", tmp_path / "data"
    lines = (f"{name}={text}" for name, text in settings.items())
    file.write_text("\n".join(lines).replace("{d}", str(directory)))

    code = run(["start", str(file), "--data", str(data)])

    said = capsys.readouterr().err
    assert re.search(sentence.replace("{d}", str(directory)), said), said
    assert (code, said.count("Error: "), data.exists()) == (2, 1, False)
    assert "s3cret" not in said


def test_a_secure_directory_that_is_half_or_foreign_is_refused(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half, foreign = tmp_path / "half", tmp_path / "foreign"
    half.mkdir()
    (half / "ca.pem").write_bytes((directory / "ca.pem").read_bytes())
    foreign.mkdir()
    (foreign / "server.jks").touch()
    for words, sentence in (
        (["--secure", str(half)], "has ca.pem, but no ca.key"),
        (["--secure", str(foreign)], "has server.jks, but no ca.pem"),
        (["--secure", " "], "--secure is empty"),
        (["--secure", str(half), "--open"], "--secure and --open exclude each other"),
        (["--secure", str(half), "--override", "num.partitions=x"], "num.partitions"),
        (
            ["--secure", str(half), "--override", "listeners=PLAINTEXT://:1"],
            "--secure makes the listeners: give their addresses by --listen alone",
        ),
        (["--listen", ":0"], "--listen :0 lets in everybody who reaches it: --secure DIR asks"),
    ):
        assert run(["start", *words]) == 2
        assert sentence in capsys.readouterr().err
    assert {path.name for path in tmp_path.rglob("*")} == {
        "half",
        "foreign",
        "ca.pem",
        "server.jks",
    }
