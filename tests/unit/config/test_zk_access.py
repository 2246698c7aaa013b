"""The way into a ZooKeeper: what the settings make of it, and what is refused."""

from __future__ import annotations

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.tls_settings import Pem
from kbroker.config.zk_access import Credentials, ZkAccess, zk_access
from kbroker.errors import ConfigError

SSL = "zookeeper.ssl."
TLS = {f"{SSL}client.enable": "true"}
SET_ACL = {"zookeeper.set.acl": "true"}
JAAS, DIGEST = "kbroker.zookeeper.jaas.config", "kbroker.zookeeper.digest"
SECRET = "se.cret"
LOGIN = f'org.x.DigestLoginModule required username=ann password="{SECRET}";'
FILES = {
    f"{SSL}keystore.location": "/own.pem",
    f"{SSL}keystore.password": SECRET,
    f"{SSL}truststore.location": "/trusted.crt",
    f"{SSL}truststore.type": "pem",
}


def access(texts: dict[str, str]) -> ZkAccess:
    return zk_access(KafkaConfig({"zookeeper.connect": "zk:2181", **texts}))


def test_without_settings_it_is_plain_and_open_to_all() -> None:
    assert access(FILES) == ZkAccess()


def test_tls_logins_and_rights_come_of_their_settings() -> None:
    both = access({**TLS, **FILES, **SET_ACL, JAAS: LOGIN, DIGEST: f"zk:a:{SECRET}"})

    assert both.sets_acl
    assert both.tls is not None
    assert (both.tls.own, both.tls.trusted) == (Pem(file="/own.pem"), Pem(file="/trusted.crt"))
    assert (both.tls.key_password, both.tls.checks_host_name) == (SECRET, True)
    assert both.sasl == Credentials(username="ann", password=SECRET)
    assert both.digest == Credentials(username="zk", password=f"a:{SECRET}")
    assert SECRET not in repr(both)


def test_kafka_s_default_of_versions_is_for_all_and_what_is_set_is_kept_to() -> None:
    def versions(texts: dict[str, str]) -> tuple[str, ...]:
        tls = access({**TLS, **texts}).tls
        assert tls is not None
        return tls.versions

    assert versions({}) == ("TLSv1.2", "TLSv1.3")
    assert versions({f"{SSL}protocol": "TLSv1.2"}) == ("TLSv1.2",)
    assert versions({f"{SSL}protocol": "TLSv1.2", f"{SSL}enabled.protocols": "TLSv1.3"}) == (
        "TLSv1.3",
    )
    by_address = access({**TLS, f"{SSL}endpoint.identification.algorithm": ""}).tls
    assert by_address is not None
    assert not by_address.checks_host_name


@pytest.mark.parametrize("login", [{JAAS: LOGIN}, {DIGEST: "a:b"}, {**TLS, **FILES}])
def test_rights_need_a_login_of_any_kind(login: dict[str, str]) -> None:
    assert access({**SET_ACL, **login}).sets_acl


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (SET_ACL, "zookeeper.set.acl=true needs a login"),
        ({**SET_ACL, **TLS}, "zookeeper.set.acl=true needs a login"),
        (
            {**TLS, f"{SSL}keystore.location": "/a.jks"},
            "`keytool -importkeystore -srckeystore /a.j",
        ),
        ({**TLS, f"{SSL}keystore.location": "/a.p12"}, "Java only: `openssl pkcs12 -in /a.p12"),
        ({**TLS, f"{SSL}truststore.location": "/a.b/c"}, "`keytool -list -rfc -keystore /a.b/c"),
        (
            {**TLS, **FILES, f"{SSL}truststore.type": "JKS"},
            "if it is one already, set the type to PEM",
        ),
        ({**TLS, f"{SSL}crl.enable": "true"}, "true for configuration zookeeper.ssl.crl.enable"),
        ({**TLS, f"{SSL}ocsp.enable": "true"}, "ocsp.enable: no such check is served"),
        ({**TLS, f"{SSL}protocol": "TLS"}, f"{SSL}protocol: only TLSv1.2 and TLSv1.3"),
        ({**TLS, f"{SSL}cipher.suites": "X"}, f"{SSL}cipher.suites: no such suite"),
        ({DIGEST: f":{SECRET}"}, f"{DIGEST} is not USER:PASSWORD"),
        ({JAAS: "A required"}, f"{JAAS} cannot be read: the semicolon"),
        ({JAAS: f"Krb5LoginModule required keyTab={SECRET};"}, "takes one DigestLoginModule"),
        ({JAAS: f"DigestLoginModule required password={SECRET};"}, 'needs username="..."'),
        ({JAAS: LOGIN.replace("ann", "änn")}, "beyond ASCII"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(texts: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        access(texts)
    assert sentence in str(caught.value)
    assert SECRET not in str(caught.value)
