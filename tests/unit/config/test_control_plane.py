from __future__ import annotations

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError

LISTENERS = {
    "listeners": "INSIDE://h:1,ORDERS://h:2",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,ORDERS:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
}


def config(name: str | None) -> KafkaConfig:
    named = {} if name is None else {"control.plane.listener.name": name}
    made = KafkaConfig.for_profile("dev", LISTENERS | named)
    made.validate()
    return made


@pytest.mark.parametrize(("name", "listener"), [("orders", "ORDERS"), (None, None)])
def test_the_control_plane_is_a_listener_of_its_own(name: str | None, listener: str | None) -> None:
    assert config(name).control_plane_listener_name() == listener


def test_what_starts_early_is_a_listener_that_is_there() -> None:
    early = "early.start.listeners"
    KafkaConfig.for_profile("dev", LISTENERS | {early: "inside, ORDERS"}).validate()
    with pytest.raises(ConfigError, match="ELSEWHERE for configuration early"):
        KafkaConfig.for_profile("dev", LISTENERS | {early: "INSIDE,ELSEWHERE"}).validate()


@pytest.mark.parametrize("name", ["INSIDE", "ELSEWHERE"])
def test_it_is_advertised_and_not_that_of_the_brokers(name: str) -> None:
    with pytest.raises(ConfigError, match=r"control\.plane\.listener\.name"):
        config(name)
