"""CredentialCache: the SCRAM credentials of all users, as they are under /config/users.

Law: what is written there counts for the next login. A credential that cannot be read lets nobody
in. Sessions that are open stay open when their user is deleted or gets another password, as in
Kafka.

Owned by the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kbroker.sasl.exchange import Identity
from kbroker.sasl.made_up_users import MadeUpUsers
from kbroker.sasl.scram_keys import SCRAM_MECHANISMS, ScramCredential
from kbroker.sasl.scram_server import ScramUser
from kbroker.zk import zk_paths
from kbroker.zk.nodes.entity_configs import entity_name

_log = logging.getLogger(__name__)


class CredentialCache:
    """The users of one cluster, by mechanism and name."""

    def __init__(self) -> None:
        self._changes = 0
        self._users: dict[str, dict[str, ScramUser]] = {name: {} for name in SCRAM_MECHANISMS}
        self.made_up = MadeUpUsers()

    @property
    def changes(self) -> int:
        """How often a user has changed; any thread may ask."""
        return self._changes

    def find(self, mechanism: str, name: str) -> ScramUser | None:
        """Return a user's credential of one mechanism; any thread may ask."""
        return self._users[mechanism].get(name)

    def user_changed(self, entity: str, overrides: Mapping[str, str]) -> None:
        """Take over what the node of a user holds now; a handler of `users`."""
        if entity == zk_paths.DEFAULT_ENTITY or "/" in entity:
            return  # these have quotas
        self._changes += 1
        name = entity_name(entity)
        credentials = {}
        for mechanism, users in self._users.items():
            user = _user(mechanism, name, overrides.get(mechanism))
            if user is None:
                users.pop(name, None)
            else:
                users[name] = user
                credentials[mechanism] = user.credential
        self.made_up.put(name, credentials)


def _user(mechanism: str, name: str, text: str | None) -> ScramUser | None:
    if text is None:
        return None
    try:
        credential = ScramCredential.parse(SCRAM_MECHANISMS[mechanism], text)
    except ValueError as error:
        _log.error("user %r cannot log in by %s: %s", name, mechanism, error)
        return None
    return ScramUser(credential, Identity(name))
