"""The first user of a cluster that has none, so that somebody can log in and add the others."""

from __future__ import annotations

import secrets

from kbroker.sasl.scram_keys import ITERATIONS_MIN, SCRAM_MECHANISMS, ScramCredential
from kbroker.zk import zk_paths
from kbroker.zk.nodes.entity_configs import ZkEntityConfigs
from kbroker.zk.zk_utils import ZkUtils

_SALT_BYTES = 16


async def add_first_user(zk: ZkUtils, login: str) -> None:
    """Give a cluster without users the one of `login`, NAME:PASSWORD, with a credential of each
    mechanism of SCRAM. One that has a user, however it came by it, stays as it is.
    """
    entities = ZkEntityConfigs(zk)
    stored = await entities.every(zk_paths.USER_CONFIGS)
    if any(SCRAM_MECHANISMS.keys() & overrides.keys() for overrides in stored.values()):
        return
    name, _, password = login.partition(":")
    credentials = {
        mechanism.sasl_name: str(
            ScramCredential.of_password(
                mechanism, password, secrets.token_bytes(_SALT_BYTES), ITERATIONS_MIN
            )
        )
        for mechanism in SCRAM_MECHANISMS.values()
    }
    await entities.update(
        zk_paths.USER_CONFIGS, zk_paths.sanitized(name), lambda before: {**before, **credentials}
    )
