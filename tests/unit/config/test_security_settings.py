"""TLS and SASL of one listener: the values that its settings make, and the sentences of those that
do not fit together.
"""

from __future__ import annotations

from ssl import PROTOCOL_TLS_SERVER, SSLContext

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.sasl_settings import sasl_settings
from kbroker.config.tls_settings import Pem, tls_settings
from kbroker.config.tls_suites import OPENSSL_NAMES, SUITES_OF_TLS_1_3
from kbroker.errors import ConfigError

L = "listener.name.plaintext."
FILE = {f"{L}ssl.keystore.location": "/b.pem", f"{L}ssl.keystore.type": "PEM"}
SECRET = "se.cret"
BODY = "A" * 64 + "\n" + "B/+="
CERTIFICATES = (
    f"-----BEGIN CERTIFICATE-----\n{BODY}\n-----END CERTIFICATE-----\n"
    "-----BEGIN CERTIFICATE-----\nC\n-----END CERTIFICATE-----\n"
)
KEY = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nD\n-----END ENCRYPTED PRIVATE KEY-----\n"


def test_the_listener_s_own_tls_wins_over_the_plain_settings() -> None:
    texts = {
        "ssl.keystore.type": "JKS",
        "ssl.keystore.location": "/store.jks",
        "ssl.client.auth": "required",
        **FILE,
        f"{L}ssl.key.password": SECRET,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CERTIFICATES,
        "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,"
        "TLS_RSA_WITH_AES_256_CBC_SHA",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/L,DEFAULT",
    }
    tls = tls_settings(KafkaConfig(texts), "PLAINTEXT")

    assert (tls.own, tls.trusted) == (Pem(file="/b.pem"), Pem(certificates=CERTIFICATES))
    assert (tls.client_auth, tls.versions) == ("required", ("TLSv1.2", "TLSv1.3"))
    assert tls.suites_of_1_2 == ("ECDHE-RSA-AES128-GCM-SHA256", "AES256-SHA")
    assert tls.suites_of_1_3 == ("TLS_AES_256_GCM_SHA384",)
    assert tls.principal_rules.user_name("CN=Ann,O=x") == "ann"
    assert tls.key_password == SECRET
    assert SECRET not in repr(tls)


def test_texts_that_became_one_line_in_a_properties_file_are_pem_again() -> None:
    texts = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": f"Bag: x {KEY}".replace("\n", " "),
        "ssl.keystore.certificate.chain": CERTIFICATES.replace("\n", " "),
    }
    tls = tls_settings(KafkaConfig(texts), "PLAINTEXT")
    assert tls.own == Pem(certificates=CERTIFICATES, key=KEY)


def test_suites_leave_only_the_versions_that_have_one() -> None:
    suites = {"ssl.cipher.suites": "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256"}
    tls = tls_settings(KafkaConfig({**FILE, **suites}), "PLAINTEXT")
    assert (tls.versions, tls.suites_of_1_2) == (("TLSv1.2",), ("DHE-RSA-CHACHA20-POLY1305",))
    assert tls.trusted is None


def test_openssl_has_every_suite_by_this_name() -> None:
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    names = {each["name"] for each in context.get_ciphers()}
    assert {*OPENSSL_NAMES.values(), *SUITES_OF_TLS_1_3} - names == set()


REFUSED_TLS = [
    ({}, "set ssl.keystore.location to a PEM file with both, and ssl.keystore.type=PEM"),
    ({f"{L}ssl.keystore.location": "/a/b.jks"}, "`keytool -importkeystore -srckeystore /a/b.jks"),
    (
        {f"{L}ssl.keystore.location": "/b.p12", "ssl.keystore.type": "PKCS12"},
        "Invalid value PKCS12 for configuration ssl.keystore.type: /b.p12 is read by Java only: "
        "`openssl pkcs12 -in /b.p12 -nodes -out /b.pem`",
    ),
    (
        {**FILE, "ssl.truststore.location": "/t.jks"},
        "Invalid value JKS for configuration ssl.truststore.type: /t.jks is read by Java only: "
        "`keytool -list -rfc -keystore /t.jks > /t.pem`",
    ),
    ({**FILE, f"{L}ssl.keystore.password": SECRET}, f"{L}ssl.keystore.password is set, but PEM"),
    ({**FILE, "ssl.keystore.key": SECRET}, "ssl.keystore.key exclude each other"),
    ({"ssl.keystore.key": SECRET}, "ssl.keystore.key is set, which is of PEM: set PEM"),
    (
        {"ssl.keystore.key": SECRET, "ssl.keystore.type": "PEM"},
        "ssl.keystore.key and ssl.keystore.certificate.chain belong together",
    ),
    (
        {"ssl.keystore.certificate.chain": SECRET, "ssl.keystore.type": "PEM"},
        "ssl.keystore.certificate.chain and ssl.keystore.key belong together",
    ),
    (
        {
            "ssl.keystore.certificate.chain": CERTIFICATES,
            "ssl.keystore.key": SECRET,
            "ssl.keystore.type": "PEM",
        },
        "ssl.keystore.key cannot be used: it has 0 of -----BEGIN PRIVATE KEY-----",
    ),
    (
        {
            "ssl.keystore.certificate.chain": SECRET,
            "ssl.keystore.key": KEY,
            "ssl.keystore.type": "PEM",
        },
        "ssl.keystore.certificate.chain cannot be used: it has no -----BEGIN CERTIFICATE-----",
    ),
    ({**FILE, f"{L}ssl.client.auth": "requested"}, f"{L}ssl.client.auth=requested needs"),
    ({**FILE, "ssl.enabled.protocols": "TLSv1.1"}, "only TLSv1.2 and TLSv1.3 are served"),
    (
        {**FILE, "ssl.cipher.suites": "TLS_AES_256_GCM_SHA348"},
        "no such suite is served, did you mean TLS_AES_256_GCM_SHA384?",
    ),
    (
        {
            **FILE,
            "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384",
            "ssl.enabled.protocols": "TLSv1.2",
        },
        "none is of TLSv1.2, see ssl.enabled.protocols",
    ),
    (
        {**FILE, "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"},
        "of TLS 1.3 name TLS_AES_256_GCM_SHA384 too, or none",
    ),
    (
        {**FILE, f"{L}ssl.principal.mapping.rules": "RULE:a"},
        f"configuration {L}ssl.principal.mapping.rules: RULE:a is neither DEFAULT nor",
    ),
]


@pytest.mark.parametrize(("texts", "sentence"), REFUSED_TLS)
def test_tls_that_does_not_fit_together_is_refused(texts: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        tls_settings(KafkaConfig(texts), "PLAINTEXT")
    assert sentence in str(caught.value)
    assert SECRET not in str(caught.value)


PLAIN = f'org.x.PlainLoginModule required username="me" password="{SECRET}" user_ann="a1";'


def test_logins_are_those_of_the_listener_s_mechanisms() -> None:
    texts = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        f"{L}plain.sasl.jaas.config": PLAIN,
        f"{L}connections.max.reauth.ms": "1000",
        f"{L}oauthbearer.connections.max.reauth.ms": "2000",
        f"{L}oauthbearer.sasl.server.callback.handler.class": "tokens:check",
        "sasl.server.callback.handler.class": "for:nobody",
        f"{L}sasl.server.max.receive.size": "4096",
    }
    sasl = sasl_settings(KafkaConfig(texts), "PLAINTEXT")

    assert list(sasl.mechanisms) == ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"]
    assert sasl.max_receive_bytes == 4096
    plain, scram, tokens = sasl.mechanisms.values()
    assert (plain.passwords(), plain.handler, plain.max_reauth_ms) == ({"ann": "a1"}, None, 1000)
    assert (scram.options, scram.handler) == ({}, None)
    assert (tokens.handler, tokens.max_reauth_ms) == ("tokens:check", 2000)
    assert SECRET not in repr(sasl)


REFUSED_SASL = [
    ("PLAIN", {}, f"{L}plain.sasl.jaas.config names no users of PLAIN: set it to"),
    (
        "PLAIN",
        {"sasl.jaas.config": PLAIN},
        "; sasl.jaas.config is not read for the logins of a listener",
    ),
    ("PLIAN", {}, "Invalid value PLIAN for configuration sasl.enabled.mechanisms: no such "),
    ("", {}, "name at least one of PLAIN"),
    ("PLAIN", {f"{L}plain.sasl.jaas.config": PLAIN[:-1]}, "cannot be read: the semicolon"),
    ("PLAIN", {f"{L}plain.sasl.jaas.config": PLAIN * 2}, "has 2 login modules: it takes one"),
    (
        "SCRAM-SHA-512",
        {f"{L}scram-sha-512.sasl.jaas.config": PLAIN},
        "is not for SCRAM-SHA-512: its login module is ScramLoginModule",
    ),
]


@pytest.mark.parametrize(("mechanisms", "texts", "sentence"), REFUSED_SASL)
def test_logins_that_cannot_work_are_refused(
    mechanisms: str, texts: dict[str, str], sentence: str
) -> None:
    config = KafkaConfig({"sasl.enabled.mechanisms": mechanisms, **texts})
    with pytest.raises(ConfigError) as caught:
        sasl_settings(config, "PLAINTEXT")
    assert sentence in str(caught.value)
    assert SECRET not in str(caught.value)
