"""Passwords among dynamic settings are encrypted in the tree, plain where they are used, and never
lost: not by another secret, and not by other changes.
"""

from __future__ import annotations

import logging

import pytest

from kbroker.admin.config_admin import ConfigAdmin
from kbroker.admin.stored_passwords import StoredPasswords
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import KafkaError
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kbroker.server.broker.broker_settings import BrokerSettings
from kbroker.zk.nodes.entity_configs import ZkEntityConfigs
from tests.fakes.clusters.controller_cluster import ControllerCluster, FakeBroker

BROKER, SET, DELETE = 4, 0, 1
NAME, THREADS = "listener.name.plaintext.ssl.key.password", "log.cleaner.threads"
PLAIN = "the pass phrase"
Change = tuple[str, int, str | None]


@pytest.fixture
def broker(cluster: ControllerCluster) -> FakeBroker:
    return cluster.brokers[0]


def config(**secrets: str) -> KafkaConfig:
    names = {f"password.encoder.{name.replace('_', '.')}": text for name, text in secrets.items()}
    return KafkaConfig.for_profile("dev", {"broker.id": "0", **names})


async def altered(
    broker: FakeBroker, with_settings: KafkaConfig, *changes: Change
) -> KafkaError | None:
    configs = ConfigAdmin(broker.zk, lambda: with_settings, broker.metadata)
    kind = IncrementalAlterConfigsRequest
    resource = kind.AlterConfigsResource(
        resource_type=BROKER,
        resource_name="0",
        configs=[
            kind.AlterableConfig(name=name, config_operation=operation, value=value)
            for name, operation, value in changes
        ],
    )
    (outcome,) = await configs.incremental_alter([resource], False)
    return outcome


async def stored(broker: FakeBroker) -> dict[str, str]:
    return await ZkEntityConfigs(broker.zk).overrides("brokers", "0")


async def in_force(broker: FakeBroker, with_settings: KafkaConfig) -> dict[str, str]:
    settings = BrokerSettings(with_settings, lambda _: {})
    settings.broker_changed("0", await stored(broker))
    return dict(settings.config.dynamic_broker)


async def test_a_password_is_stored_encrypted_and_used_plain(broker: FakeBroker) -> None:
    ours = config(secret="ours")

    assert await altered(broker, ours, (NAME, SET, PLAIN), (THREADS, SET, "2")) is None

    before = await stored(broker)
    assert before[NAME].startswith("initializationVector:")
    assert before[THREADS] == "2"
    assert await in_force(broker, ours) == {NAME: PLAIN, THREADS: "2"}
    assert await altered(broker, ours, (THREADS, SET, "1")) is None
    assert (await stored(broker))[NAME] == before[NAME], "encrypted once"
    assert await altered(broker, ours, (NAME, DELETE, None)) is None
    assert await stored(broker) == {THREADS: "1"}


async def test_what_cannot_be_decrypted_is_ignored_and_kept(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    await altered(broker, config(secret="ours"), (NAME, SET, PLAIN))
    before = await stored(broker)

    for others, reason in (
        (config(secret="another"), "encrypted with another secret"),
        (config(), "password.encoder.secret is not set"),
    ):
        caplog.clear()
        assert NAME not in await in_force(broker, others)
        (line,) = caplog.messages
        assert line.startswith(f"ignoring the dynamic setting {NAME}: ")
        assert reason in line
        assert PLAIN not in line
        assert before[NAME] not in line
        assert await altered(broker, others, (THREADS, SET, "2")) is None
        assert await stored(broker) == before | {THREADS: "2"}


async def test_a_start_encrypts_with_the_new_secret_what_the_old_one_opens(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    await altered(broker, config(secret="old"), (NAME, SET, PLAIN))
    before, configs = await stored(broker), ZkEntityConfigs(broker.zk)
    caplog.set_level(logging.INFO)

    changing = config(secret="new", old_secret="old")
    await StoredPasswords(changing.security).encrypt_again(configs, 0)

    after = await stored(broker)
    assert after[NAME] != before[NAME]
    assert await in_force(broker, config(secret="new")) == {NAME: PLAIN}
    assert "encrypted with the new secret" in caplog.text
    await StoredPasswords(changing.security).encrypt_again(configs, 0)
    await StoredPasswords(config(secret="third", old_secret="x").security).encrypt_again(configs, 0)
    await StoredPasswords(config(secret="new").security).encrypt_again(configs, 0)
    assert await stored(broker) == after
