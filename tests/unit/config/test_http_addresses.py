"""Where a broker listens for HTTP."""

from __future__ import annotations

import pytest

from kbroker.config.http_addresses import is_loopback, parse_http_addresses
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError
from kbroker.server.start.start_refusals import refusals_of

NAME = "kbroker.http.listeners"
PROD = {"listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": "/d"}


def http(profile: str = "dev", **values: str) -> list[str]:
    texts = {name.replace("_", "."): value for name, value in values.items()}
    config = KafkaConfig.for_profile(profile, texts)
    return [f"{end_point.host}:{end_point.port}" for end_point in config.http_end_points()]


def refusals(**values: str) -> list[str]:
    texts = {name.replace("_", "."): value for name, value in values.items()}
    return [str(refusal) for refusal in refusals_of(KafkaConfig.for_profile("dev", texts))]


def test_dev_listens_on_this_machine_and_prod_only_if_it_is_asked_to() -> None:
    assert http() == ["127.0.0.1:8080"]
    assert http("prod", **PROD) == []
    assert http("prod", **PROD, kbroker_http_listeners="127.0.0.1:1") == ["127.0.0.1:1"]


def test_a_broker_on_any_free_port_has_none_unless_it_is_asked_to() -> None:
    free = "PLAINTEXT://127.0.0.1:0"

    assert http(listeners=free) == []
    assert http(listeners=free, kbroker_http_listeners="127.0.0.1:0") == ["127.0.0.1:0"]


def test_an_empty_list_means_none() -> None:
    assert http(kbroker_http_listeners="") == []


def test_addresses_are_a_host_or_none_and_a_port() -> None:
    parsed = parse_http_addresses(NAME, ["kafka-1.example:1", ":2", "[::1]:3"])

    assert [(each.host, each.port) for each in parsed] == [
        ("kafka-1.example", 1),
        ("", 2),
        ("::1", 3),
    ]


@pytest.mark.parametrize(
    "text", ["8080", "localhost", "http://localhost:80", "h:65536", "::1:80", "h:", "", "a b:1"]
)
def test_anything_else_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(ConfigError, match=NAME):
        parse_http_addresses(NAME, [text])


@pytest.mark.parametrize("host", ["localhost", "LocalHost", "127.0.0.1", "127.1.2.3", "::1"])
def test_loopback_is_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "127.0.0.1.example", "10.0.0.1", "h"])
def test_all_else_may_be_reached_from_elsewhere(host: str) -> None:
    assert not is_loopback(host)


def test_an_address_that_others_reach_needs_a_token() -> None:
    assert refusals(kbroker_http_listeners=":8080") == [
        "Invalid value :8080 for configuration kbroker.http.listeners: other machines reach this "
        "address: set kbroker.http.token.file, have a listener with TLS and passwords, or listen "
        "on 127.0.0.1"
    ]
    assert refusals(kbroker_http_listeners=":8080", kbroker_http_token="t") == []
    assert refusals(kbroker_http_listeners=":8080", kbroker_http_token_file="f") == []
    assert refusals(kbroker_http_listeners="127.0.0.1:8080") == []


def test_a_token_has_one_home() -> None:
    assert refusals(kbroker_http_token="t", kbroker_http_token_file="f") == [
        "kbroker.http.token and kbroker.http.token.file exclude each other"
    ]
