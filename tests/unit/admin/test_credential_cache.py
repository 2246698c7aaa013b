"""Users as their nodes say, and as the listeners find them."""

from __future__ import annotations

import asyncio

import pytest

from kbroker.admin.credential_cache import CredentialCache
from kbroker.admin.dynamic_config_manager import DynamicConfigManager
from kbroker.sasl.exchange import Identity
from kbroker.sasl.scram_keys import SCRAM_MECHANISMS, ScramCredential
from kbroker.zk import zk_paths, zk_watchers
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.nodes.entity_configs import ZkEntityConfigs
from kbroker.zk.nodes.login_secret import login_secret
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.trees.memory_tree_files import FixedClock

SHA_256 = "SCRAM-SHA-256"
CREDENTIAL = ScramCredential.of_password(SCRAM_MECHANISMS[SHA_256], "secret", b"salt", 4096)


def test_a_user_is_found_by_name_and_mechanism_until_the_credential_is_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cache = CredentialCache()

    for entity in ("ann%20%C3%A9", "<default>", "bob/clients/c"):
        cache.user_changed(entity, {SHA_256: str(CREDENTIAL), "producer_byte_rate": "1"})
    found = cache.find(SHA_256, "ann é")
    assert found is not None
    assert found == (CREDENTIAL, Identity("ann é"))
    assert cache.find("SCRAM-SHA-512", "ann é") is None
    assert [cache.find(SHA_256, name) for name in ("<default>", "bob")] == [None, None]
    nobody = cache.made_up.credential(b"key", SCRAM_MECHANISMS[SHA_256], "nobody")
    assert (len(nobody.salt), nobody.iterations) == (len(CREDENTIAL.salt), CREDENTIAL.iterations)

    cache.user_changed("ann%20%C3%A9", {SHA_256: "salt=secret"})
    assert cache.find(SHA_256, "ann é") is None
    assert "other fields" in caplog.text
    assert "secret" not in caplog.text


async def test_users_are_known_from_the_start_and_one_deleted_unseen_is_not_known_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(zk_watchers, "RETRY_BACKOFF_S", 0.0)
    tree = EmbeddedTree(FixedClock())
    session = tree.session()
    zk = ZkUtils(session, FixedClock())
    await zk.create_persistent_paths()
    stored = ZkEntityConfigs(ZkUtils(tree.session(), FixedClock()))
    for name in ("ann", "bob"):
        await stored.update(zk_paths.USER_CONFIGS, name, lambda _: {SHA_256: str(CREDENTIAL)})
    cache, manager = CredentialCache(), DynamicConfigManager(zk, FixedClock())
    manager.add_handler(zk_paths.USER_CONFIGS, cache.user_changed)

    await manager.start()
    assert cache.find(SHA_256, "ann") is not None
    await stored.update(zk_paths.USER_CONFIGS, "ann", lambda _: {})
    await turns()
    assert cache.find(SHA_256, "ann") is None
    # Another program, which leaves no notification, in a session that this broker loses.
    await tree.session().delete(zk_paths.config_path(zk_paths.USER_CONFIGS, "bob"))
    session.expire()
    session.renew()
    await turns()

    assert cache.find(SHA_256, "bob") is None
    await manager.stop()


async def test_the_secret_of_a_cluster_is_the_same_for_all_its_brokers() -> None:
    tree = EmbeddedTree(FixedClock())

    first, second = (ZkUtils(tree.session(), FixedClock()) for _ in range(2))

    assert await login_secret(first, b"one") == b"one"
    assert await login_secret(second, b"other") == b"one"


async def turns() -> None:
    for _ in range(100):
        await asyncio.sleep(0)
