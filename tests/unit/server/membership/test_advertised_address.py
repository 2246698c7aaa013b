"""The addresses a broker registers."""

from __future__ import annotations

import socket

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError
from kbroker.model import EndPoint
from kbroker.server.membership.advertised_address import Reach, advertised_end_points

HERE = socket.gethostname()


def registered(listeners: str, reach: Reach, profile: str = "dev", **settings: str) -> list[str]:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    config = KafkaConfig.for_profile(profile, {"listeners": listeners, **names})
    bound = [
        EndPoint(listener_name=e.listener_name, host=e.host, port=e.port or 4000)
        for e in config.end_points()
    ]
    return [f"{e.host}:{e.port}" for e in advertised_end_points(config, bound, reach)]


@pytest.mark.parametrize(
    ("listener", "clients", "process", "machines"),
    [
        ("PLAINTEXT://127.0.0.1:0", ":4000", "127.0.0.1:4000", "127.0.0.1:4000"),
        ("PLAINTEXT://0.0.0.0:9092", ":9092", ":9092", f"{HERE}:9092"),
        ("PLAINTEXT://:9092", ":9092", ":9092", f"{HERE}:9092"),
    ],
)
def test_the_address_is_of_use_to_those_in_reach(
    listener: str, clients: str, process: str, machines: str
) -> None:
    assert registered(listener, Reach.CLIENTS) == [clients]
    assert registered(listener, Reach.PROCESS) == [process]
    assert registered(listener, Reach.MACHINES) == [machines]


def test_what_is_advertised_counts_everywhere() -> None:
    for reach in Reach:
        assert registered(
            "PLAINTEXT://:9092", reach, advertised_listeners="PLAINTEXT://example.org:19092"
        ) == ["example.org:19092"]
        assert registered("PLAINTEXT://:9092", reach, kbroker_advertise="example.org:1") == [
            "example.org:1"
        ]


def test_an_advertised_port_of_0_is_the_one_bound() -> None:
    assert registered("PLAINTEXT://h:0", Reach.MACHINES, "prod") == ["h:4000"]


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"kbroker\.advertise=example\.org is not HOST:PORT"):
        registered("PLAINTEXT://:9092", Reach.CLIENTS, kbroker_advertise="example.org")
