"""Settings of one listener: which ones are in force, checked, described, and named in a warning."""

from __future__ import annotations

import pytest

from kbroker.cli.config.files import findings_in
from kbroker.config.config_resources import ConfigSource
from kbroker.config.config_values import ConfigType
from kbroker.config.config_view import ConfigSynonym, describe_broker, select
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError

LISTENERS = {
    "listeners": "PLAINTEXT://:9092,Inside://:9093,my.net://:9094",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,MY.NET:PLAINTEXT",
}
REAUTH, AUTH = "connections.max.reauth.ms", "ssl.client.auth"


def test_the_mechanism_s_value_wins_over_the_listener_s_and_that_over_the_plain_one() -> None:
    texts = {
        REAUTH: "1",
        f"listener.name.inside.{REAUTH}": "2",
        f"listener.name.inside.scram-sha-256.{REAUTH}": "3",
        f"listener.name.my.net.{REAUTH}": "4",
        f"listener.name.Inside.plain.{REAUTH}": "5",  # Kafka reads names in lower case only
        f"listener.name.inside.a.b.{REAUTH}": "6",
        "listener.name.inside.ssl.enabled.protocols": "TLSv1.3, TLSv1.2",
    }
    config, _ = KafkaConfig.from_values({**LISTENERS, **texts})

    inside, net = "listener.name.inside.", "listener.name.my.net."
    setting = config.listener_setting
    assert setting(REAUTH, "INSIDE", "SCRAM-SHA-256") == (f"{inside}scram-sha-256.{REAUTH}", 3)
    assert setting(REAUTH, "INSIDE", "PLAIN") == (f"{inside}{REAUTH}", 2)
    assert setting(REAUTH, "INSIDE") == (f"{inside}{REAUTH}", 2)
    assert setting(REAUTH, "MY.NET") == (f"{net}{REAUTH}", 4)
    assert setting(REAUTH, "PLAINTEXT", "PLAIN") == (REAUTH, 1)
    assert setting("ssl.enabled.protocols", "INSIDE")[1] == ("TLSv1.3", "TLSv1.2")
    dynamic = config.with_dynamic({}, {f"listener.name.inside.{REAUTH}": "7"})
    assert dynamic.listener_setting(REAUTH, "INSIDE")[1] == 7


@pytest.mark.parametrize("inner", ["", "plain."])
def test_a_value_that_its_setting_does_not_take_is_refused_by_its_whole_name(inner: str) -> None:
    name = f"listener.name.inside.{inner}{AUTH}"
    sentence = (
        f"Invalid value maybe for configuration {name}: "
        "String must be one of: required, requested, none"
    )
    with pytest.raises(ConfigError) as caught:
        KafkaConfig.from_values({**LISTENERS, name: "maybe"})
    assert str(caught.value) == sentence
    errors = findings_in({**LISTENERS, name: "maybe"}, None)
    assert {"severity": "error", "finding": sentence} in errors


WARNINGS = [
    ("inside.log.dirs", "is set but has no effect: log.dirs is the same for all listeners"),
    ("inside.my.plugin", "is set but has no effect yet"),
    ("inside.sasl.oauthbearer.scope", "is set but has no effect: it is a setting of Kafka 4"),
    ("there.ssl.client.auth", "is set but has no effect: listeners has no THERE"),
    (
        "INSIDE.ssl.Key",
        "is set but has no effect: listeners are in lower case here, listener.name.inside.ssl.Key",
    ),
]


def test_each_name_has_its_warning_and_a_misspelt_one_the_nearest_name() -> None:
    texts = {f"listener.name.{name}": "none" for name, _ in WARNINGS}
    # Acted on: no warning.
    texts |= {f"listener.name.inside.plain.{REAUTH}": "1", f"listener.name.inside.{AUTH}": "none"}
    misspelt = {
        "listener.name.inside.ssl.keystore.locaton": "listener.name.inside.ssl.keystore.location",
        "listener.name.my.net.plain.sasl.jaas.conf": "listener.name.my.net.plain.sasl.jaas.config",
    }
    config = KafkaConfig({**LISTENERS, **texts, **dict.fromkeys(misspelt, "x")})

    assert config.warnings() == [
        *(f"listener.name.{name} {rest}" for name, rest in WARNINGS),
        *(f"unknown setting {name}, did you mean {near}?" for name, near in misspelt.items()),
    ]


def test_it_is_described_like_the_setting_that_it_stands_for() -> None:
    auth, jaas = f"listener.name.inside.{AUTH}", "listener.name.there.plain.sasl.jaas.config"
    config = KafkaConfig({**LISTENERS, AUTH: "required", auth: "requested", jaas: "secret"})

    entry, hidden = select(describe_broker(config), [auth, jaas])

    assert (entry.value, entry.type, entry.is_sensitive, entry.read_only) == (
        "requested",
        ConfigType.STRING,
        False,
        True,
    )
    assert entry.synonyms == (
        ConfigSynonym(auth, "requested", ConfigSource.STATIC_BROKER_CONFIG),
        ConfigSynonym(AUTH, "required", ConfigSource.STATIC_BROKER_CONFIG),
        ConfigSynonym(AUTH, "none", ConfigSource.DEFAULT_CONFIG),
    )
    assert (hidden.value, hidden.type, hidden.is_sensitive) == (None, ConfigType.PASSWORD, True)
    assert "secret" not in repr(hidden)
