"""The first user of a cluster, so that somebody can log in and add the others."""

from __future__ import annotations

import logging
import secrets
from contextlib import suppress

from kbroker.sasl.scram_keys import (
    ITERATIONS_MAX,
    OWN_ITERATIONS,
    OWN_SALT_BYTES,
    SCRAM_MECHANISMS,
    ScramCredential,
)
from kbroker.zk import zk_paths
from kbroker.zk.nodes.entity_configs import Overrides, ZkEntityConfigs
from kbroker.zk.zk_utils import ZkUtils

_log = logging.getLogger(__name__)


async def add_first_user(zk: ZkUtils, login: str) -> None:
    """Give a cluster the user of `login`, NAME:PASSWORD, with a credential of each mechanism of
    SCRAM: once, so that whoever deletes that user later is obeyed. A user who is there already
    stays as it is; a login of an earlier time that lets nobody in is logged.
    """
    name, _, password = login.partition(":")
    entities, node = ZkEntityConfigs(zk), zk_paths.sanitized(name)
    if await zk.tree.exists(zk_paths.FIRST_USER) is not None:
        if not _lets_in(await entities.overrides(zk_paths.USER_CONFIGS, node), password):
            _log.warning(
                "%s cannot log in with the password of kbroker.first.user: this data has had a "
                "first user before, and %s is gone, or has another password: give the one that was "
                "set, or set this one by `kbroker user`, with --data while no broker runs",
                name,
                name,
            )
        return
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

    await entities.update(zk_paths.USER_CONFIGS, node, with_credentials)
    await zk.create_if_absent(zk_paths.FIRST_USER)


def _lets_in(stored: Overrides, password: str) -> bool:
    for mechanism in SCRAM_MECHANISMS.values():
        with suppress(ValueError):  # it cannot be read, or is not there
            found = ScramCredential.parse(mechanism, stored.get(mechanism.sasl_name, ""))
            # More of them would take a start seconds.
            if found.iterations > ITERATIONS_MAX or found == ScramCredential.of_password(
                mechanism, password, found.salt, found.iterations
            ):
                return True
    return False
