"""The first user of a cluster, so that somebody can log in and add the others."""

from __future__ import annotations

import secrets

from kbroker.sasl.scram_keys import (
    OWN_ITERATIONS,
    OWN_SALT_BYTES,
    SCRAM_MECHANISMS,
    ScramCredential,
)
from kbroker.zk import zk_paths
from kbroker.zk.nodes.entity_configs import Overrides, ZkEntityConfigs
from kbroker.zk.zk_utils import ZkUtils


async def add_first_user(zk: ZkUtils, login: str) -> None:
    """Give a cluster the user of `login`, NAME:PASSWORD, with a credential of each mechanism of
    SCRAM: once, so that whoever deletes that user later is obeyed. A user who is there already
    stays as it is.
    """
    if await zk.tree.exists(zk_paths.FIRST_USER) is not None:
        return
    name, _, password = login.partition(":")
    credentials = {
        mechanism.sasl_name: str(
            ScramCredential.of_password(
                mechanism, password, secrets.token_bytes(OWN_SALT_BYTES), OWN_ITERATIONS
            )
        )
        for mechanism in SCRAM_MECHANISMS.values()
    }

    def with_credentials(before: Overrides) -> Overrides:
        return before if SCRAM_MECHANISMS.keys() & before.keys() else {**before, **credentials}

    await ZkEntityConfigs(zk).update(
        zk_paths.USER_CONFIGS, zk_paths.sanitized(name), with_credentials
    )
    await zk.create_if_absent(zk_paths.FIRST_USER)
