"""Ids, ports and directories of several brokers of one process."""

from __future__ import annotations

import socket

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError
from kbroker.server.start.local_configs import configs_of_brokers

DATA = {"log.dirs": "/data"}


def brokers(
    count: int = 3, busy: tuple[int, ...] = (), profile: str = "dev", **settings: str
) -> list[KafkaConfig]:
    values = DATA | {name.replace("_", "."): value for name, value in settings.items()}
    config = KafkaConfig.for_profile(profile, values)
    return configs_of_brokers(config, count, lambda _host, port: port not in busy)


def addresses(configs: list[KafkaConfig]) -> list[list[str]]:
    return [[f"{e.host}:{e.port}" for e in config.end_points()] for config in configs]


def test_ids_addresses_and_directories_follow_each_other() -> None:
    configs = brokers()

    assert [c.server.broker_id for c in configs] == [0, 1, 2]
    assert addresses(configs) == [["127.0.0.1:9092"], ["127.0.0.1:9093"], ["127.0.0.1:9094"]]
    assert [c.log.data_directories() for c in configs] == [
        ("/data/broker-0",), ("/data/broker-1",), ("/data/broker-2",)
    ]  # fmt: skip
    for config in configs:
        config.validate()


def test_an_id_that_was_set_is_the_first_one() -> None:
    assert [c.server.broker_id for c in brokers(broker_id="7")] == [7, 8, 9]
    assert brokers(broker_id="7")[1].log.data_directories() == ("/data/broker-8",)


def test_brokers_of_an_ensemble_get_ids_from_it_where_nobody_set_one() -> None:
    ensemble = {"zookeeper_connect": "zk:2181"}

    configs = brokers(**ensemble)

    assert [c.server.broker_id for c in configs] == [-1, -1, -1]
    assert configs[2].log.data_directories() == ("/data/broker-2",)
    assert [c.server.broker_id for c in brokers(broker_id="7", **ensemble)] == [7, 8, 9]


def test_ports_that_are_in_use_are_passed_over_but_never_the_first() -> None:
    assert addresses(brokers(busy=(9092, 9093))) == [
        ["127.0.0.1:9092"], ["127.0.0.1:9094"], ["127.0.0.1:9095"]
    ]  # fmt: skip


def test_each_broker_has_an_http_address_of_its_own() -> None:
    asked = brokers(kbroker_http_listeners="127.0.0.1:9093,[::1]:8000")
    free = brokers(kbroker_http_listeners="127.0.0.1:0")

    assert [c.kbroker.kbroker_http_listeners for c in asked] == [
        ("127.0.0.1:9093", "[::1]:8000"),
        ("127.0.0.1:9095", "[::1]:8001"),
        ("127.0.0.1:9097", "[::1]:8002"),
    ]
    assert [c.kbroker.kbroker_http_listeners for c in free] == [("127.0.0.1:0",)] * 3


def test_an_http_address_that_nobody_asked_for_finds_its_port_at_the_start() -> None:
    configs = brokers()

    assert {c.kbroker.kbroker_http_listeners for c in configs} == {("127.0.0.1:8080",)}
    assert not any(config.is_http_asked_for() for config in configs)


def test_free_ports_stay_to_be_picked() -> None:
    configs = brokers(listeners="PLAINTEXT://127.0.0.1:0")

    assert addresses(configs) == [["127.0.0.1:0"]] * 3


def test_several_listeners_do_not_take_each_others_ports() -> None:
    configs = brokers(
        listeners="A://127.0.0.1:9092,B://:9093",
        listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT",
    )

    assert addresses(configs) == [
        ["127.0.0.1:9092", ":9093"], ["127.0.0.1:9094", ":9095"], ["127.0.0.1:9096", ":9097"]
    ]  # fmt: skip


def test_addresses_of_version_6_keep_their_brackets() -> None:
    assert addresses(brokers(listeners="PLAINTEXT://[::1]:9092")) == [
        ["::1:9092"], ["::1:9093"], ["::1:9094"]
    ]  # fmt: skip


def test_the_last_port_is_the_end() -> None:
    with pytest.raises(
        ConfigError, match=r"fewer than 3 ports are free from PLAINTEXT://127\.0\.0\.1:65534 on"
    ):
        brokers(listeners="PLAINTEXT://127.0.0.1:65534")


def test_advertised_addresses_keep_their_distance() -> None:
    configs = brokers(busy=(9093,), advertised_listeners="PLAINTEXT://example.org:19092")
    forced = brokers(kbroker_advertise="example.org:19092")

    assert [str(c.advertised_end_points()[0]) for c in configs] == [
        f"PLAINTEXT://example.org:{port}" for port in (19092, 19094, 19095)
    ]
    assert [c.kbroker.kbroker_advertise for c in forced] == [
        f"example.org:{port}" for port in (19092, 19093, 19094)
    ]


@pytest.mark.parametrize("name", ["advertised.listeners", "kbroker.advertise"])
def test_an_advertised_address_needs_ports_that_are_set(name: str) -> None:
    text = "h:1" if name == "kbroker.advertise" else "PLAINTEXT://h:1"

    with pytest.raises(ConfigError, match=f"^{name} with several brokers needs"):
        brokers(**{name.replace(".", "_"): text}, listeners="PLAINTEXT://127.0.0.1:0")


def test_a_port_somebody_listens_on_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)):
        port = first.getsockname()[1]
        config = KafkaConfig.for_profile(
            "dev", DATA | {"listeners": f"PLAINTEXT://127.0.0.1:{port - 1}"}
        )

        second = configs_of_brokers(config, 2)[1]

    assert second.end_points()[0].port > port
