"""Which listener brokers use among themselves, and what they log in with there."""

from __future__ import annotations

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.peer_login import peer_login
from kbroker.config.tls_settings import peer_tls
from kbroker.errors import ConfigError
from kbroker.server.broker.broker_peers import check_ways

PLAIN = "listener.name.inside.plain.sasl.jaas.config"
JAAS = 'a.PlainLoginModule required username="b" password="se.cret" user_b="se.cret";'
SETTINGS = {
    "listeners": "INSIDE://h:1",
    "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    PLAIN: JAAS,
}


def config(**others: str) -> KafkaConfig:
    return KafkaConfig(SETTINGS | {name.replace("_", "."): text for name, text in others.items()})


def test_a_broker_logs_in_with_the_entry_of_its_own_listener() -> None:
    login = peer_login(config(), "INSIDE")

    assert (login.mechanism, login.options["username"], login.setting) == ("PLAIN", "b", PLAIN)
    assert "se.cret" not in repr(login)


@pytest.mark.parametrize(
    ("others", "sentence"),
    [
        (
            {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512"},
            r"SCRAM-SHA-512 for .*protocol: it has to be one of sasl\.enabled\.mechanisms, PLAIN, S",
        ),
        (
            {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"},
            r"inside\.scram-sha-256\.sasl\.jaas\.config has no user by whom this broker logs in",
        ),
        ({PLAIN: 'a.PlainLoginModule required user_b="se.cret";'}, r'add username="NAME" passw'),
    ],
)
def test_a_login_that_would_fail_is_refused(others: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as refused:
        check_ways(KafkaConfig(SETTINGS | others))

    assert "se.cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("others", "sentence"),
    [
        ({"inter_broker_listener_name": "ELSEWHERE"}, "other brokers, ELSEWHERE, is not among"),
        ({"kbroker_inter_broker_listeners": "A"}, "A for .*listeners: it is not among advertised"),
        ({"security_inter_broker_protocol": "SSL"}, "and security.inter.broker.protocol are both"),
        ({"advertised_listeners": "INSIDE://h:1", "inter_broker_listener_name": "inside"}, ""),
    ],
)
def test_the_listener_of_brokers_is_named_once_and_advertised(
    others: dict[str, str], sentence: str
) -> None:
    made = config(**others)
    if not sentence:
        made.validate()
        return
    with pytest.raises(ConfigError, match=sentence):
        made.validate()


def test_only_a_secured_cluster_needs_that_listener() -> None:
    """The others reach a broker without it at its first listener."""
    alone = {"listeners": "A://h:1", "listener.security.protocol.map": "A:SASL_PLAINTEXT"}
    plain = alone | {"listener.security.protocol.map": "A:PLAINTEXT"}
    ensemble = {"zookeeper.connect": "zk:1"}

    KafkaConfig(alone).validate()
    KafkaConfig(plain | ensemble).validate()
    check_ways(KafkaConfig(plain))  # also of several brokers in one process
    with pytest.raises(ConfigError, match=r"set inter\.broker\.listener\.name to one of A"):
        check_ways(KafkaConfig(alone))
    with pytest.raises(ConfigError, match=r"set inter\.broker\.listener\.name to one of A"):
        KafkaConfig(alone | ensemble).validate()


def test_host_names_are_checked_unless_the_algorithm_is_empty() -> None:
    store = {"ssl_keystore_type": "PEM", "ssl_keystore_location": "k.pem"}

    assert peer_tls(config(**store), "INSIDE").checks_host_name
    unchecked = config(**store, ssl_endpoint_identification_algorithm="")
    assert not peer_tls(unchecked, "INSIDE").checks_host_name
    with pytest.raises(ConfigError, match=r"LDAPS for .*algorithm: set https, or nothing"):
        peer_tls(config(**store, ssl_endpoint_identification_algorithm="LDAPS"), "INSIDE")
