"""KAFKA_OPTS, in which Apache Kafka's users name TLS and logins."""

from __future__ import annotations

import pytest

from kbroker.config.kafka_config import ORIGIN_ENVIRONMENT, ORIGIN_FILE
from kbroker.errors import ConfigError
from kbroker.server.start.java_options import parse_java_options
from kbroker.server.start.settings_sources import SettingSources, load_settings

FILE = "-Djava.security.auth.login.config"
LOGINS = """
KafkaServer {
  x.PlainLoginModule required username=a password=b user_ann="${env:HOME}";
  x.ScramLoginModule required username=s password=t;
  x.PlainLoginModule required user_bob="second";
};
inside.KafkaServer { x.PlainLoginModule required user_bob=b; };
Client { x.DigestLoginModule required username="ann" password="se cret"; };
Other { x.DigestLoginModule required username="bob" password="b"; };
"""
JAAS = "kbroker.zookeeper.jaas.config"


def test_properties_stand_for_settings_and_any_setting_wins() -> None:
    options = (
        "-Dzookeeper.client.secure=true '-Dzookeeper.ssl.keyStore.location=/a b.pem' "
        "-Dzookeeper.ssl.trustStore.location=/t.pem -Dzookeeper.ssl.hostnameVerification=false "
        "-Xmx1g -Dcom.x.secret=y -Dzookeeper.ssl.protocol"
    )
    loaded = load_settings(
        SettingSources(
            properties={"zookeeper.ssl.truststore.location": "/own.pem"},
            environment={"KAFKA_OPTS": options},
        )
    )
    zk = loaded.config.zk
    assert zk.zookeeper_ssl_client_enable
    assert zk.zookeeper_ssl_keystore_location == "/a b.pem"
    assert zk.zookeeper_ssl_truststore_location == "/own.pem"
    assert zk.zookeeper_ssl_endpoint_identification_algorithm == ""
    assert [
        loaded.config.origin(f"zookeeper.ssl.{store}.location")
        for store in ("keystore", "truststore")
    ] == [ORIGIN_ENVIRONMENT, ORIGIN_FILE]
    assert loaded.warnings == tuple(
        f"{each} of KAFKA_OPTS has no effect: it is meant for Java"
        for each in ("-Xmx1g", "-Dcom.x.secret", "-Dzookeeper.ssl.protocol")
    )


@pytest.mark.parametrize(
    ("more", "user"),
    [
        ("", "ann"),
        ("-Dzookeeper.sasl.clientconfig=Other", "bob"),
        ("-Dzookeeper.sasl.clientconfig=None", None),
        ("-Dzookeeper.sasl.client=false", None),
    ],
)
def test_the_section_of_the_zookeeper_s_client_is_its_login(more: str, user: str | None) -> None:
    sources = SettingSources(environment={"KAFKA_OPTS": f"{FILE}=/j {more}"}, logins=LOGINS)
    login = load_settings(sources).config.kbroker.kbroker_zookeeper_jaas_config
    assert (user is None) == (login is None)
    assert user is None or f'username="{user}"' in str(login)


@pytest.mark.parametrize("path", ["/a.jaas", "=/a.jaas", "file:/a.jaas"])
def test_the_file_is_found_as_java_finds_it(path: str) -> None:
    assert parse_java_options(f"-Xmx1g {FILE}={path}").login_file == "/a.jaas"
    assert parse_java_options(f"{FILE}= 'unfinished").login_file is None


def test_a_file_that_cannot_be_read_is_named_without_a_part_of_it() -> None:
    sources = SettingSources(
        environment={"KAFKA_OPTS": f"{FILE}=/a.jaas"}, logins="Client { secret };"
    )
    with pytest.raises(ConfigError, match=r"^/a\.jaas \(java\.s.*\) cannot be read: ") as caught:
        load_settings(sources)
    assert "secret" not in str(caught.value)


def test_listeners_with_logins_have_those_of_their_section_unless_they_are_set() -> None:
    scram = "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config"
    sources = SettingSources(
        properties={
            "listeners": "PLAINTEXT://h:1,INSIDE://h:2,SASL_SSL://h:3",
            "advertised.listeners": "SASL_SSL://h:3",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:SASL_PLAINTEXT,"
            "SASL_SSL:SASL_SSL",
            scram: "x.ScramLoginModule required username=own password=p;",
        },
        environment={"KAFKA_OPTS": f"{FILE}=/j"},
        logins=LOGINS,
    )
    loaded = load_settings(sources)

    name = "sasl.jaas.config"
    config = loaded.config
    assert 'user_ann="${env:HOME}"' in str(config.listener_setting(name, "SASL_SSL", "PLAIN")[1])
    assert "user_bob" in str(config.listener_setting(name, "INSIDE", "PLAIN")[1])
    assert "own" in str(config.listener_setting(name, "SASL_SSL", "SCRAM-SHA-256")[1])
    assert 'username="s"' in str(config.listener_setting(name, "SASL_SSL", "SCRAM-SHA-512")[1])
    assert config.listener_setting(name, "INSIDE", "SCRAM-SHA-512")[1] is None
    assert not [each for each in config.texts if each.startswith("listener.name.plaintext.")]
    assert loaded.warnings == ()
