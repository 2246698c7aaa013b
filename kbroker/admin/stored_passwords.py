"""The passwords among the dynamic settings of brokers, which the tree has encrypted.

Law: a password that this broker cannot decrypt stays in the tree as it is, until somebody sets
another one: the right secret may be the next one that it starts with. Apache Kafka drops it with
the next change of any setting.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import NamedTuple

from kbroker.config.kafka_config import config_keys
from kbroker.config.password_encoder import (
    PasswordEncoder,
    RandomBytes,
    UndecodablePasswordError,
)
from kbroker.config.security_config import SecurityConfig
from kbroker.errors import ErrorCode, KafkaError
from kbroker.zk import zk_paths
from kbroker.zk.nodes.entity_configs import Overrides, ZkEntityConfigs

_log = logging.getLogger(__name__)

# A listener's name may stand before them.
_PASSWORDS = tuple(
    key.name for key in config_keys() if key.sensitive and key.dynamic != "read-only"
)


def is_password(name: str) -> bool:
    """Whether a dynamic setting is kept encrypted."""
    return name.endswith(_PASSWORDS)


class Readable(NamedTuple):
    """Settings with their passwords in plain text, and why those that are left out cannot be
    read, by name.
    """

    settings: Overrides
    unreadable: Mapping[str, str]


class StoredPasswords:
    """Reads and writes them with the secret of this broker. Owned by the event loop."""

    def __init__(self, config: SecurityConfig, random_bytes: RandomBytes = os.urandom) -> None:
        self._config = config
        self._random_bytes = random_bytes
        self._encoder = self._encoder_of(config.password_encoder_secret)
        self._known: dict[str, str] = {}  # what is in force, decrypted: each costs a millisecond

    def readable(self, stored: Mapping[str, str]) -> Readable:
        """Decrypt the passwords among the settings of a broker."""
        settings, unreadable = dict(stored), {}
        known = {}
        for name in filter(is_password, stored):
            try:
                settings[name] = known[stored[name]] = self._decoded(stored[name])
            except UndecodablePasswordError as error:
                del settings[name]
                unreadable[name] = str(error)
        if known:
            self._known = known
        return Readable(settings, unreadable)

    def stored(self, before: Mapping[str, str], settings: Mapping[str, str]) -> Overrides:
        """The settings with those passwords encrypted that are not in `before` as they are.

        Raises KafkaError if there is no secret to do it with.
        """
        return {
            name: self._encoded(text) if is_password(name) and before.get(name) != text else text
            for name, text in settings.items()
        }

    async def encrypt_again(self, configs: ZkEntityConfigs, broker_id: int) -> None:
        """Encrypt with the new secret what the old one opens, for a broker that starts. Raises
        TreeUnavailableError.
        """
        old = self._encoder_of(self._config.password_encoder_old_secret)
        entity = str(broker_id)
        if old is None or self._encoder is None:
            return
        stored = await configs.overrides(zk_paths.BROKER_CONFIGS, entity)
        if _encrypted_again(stored, old, self._encoder) != stored:
            encoder = self._encoder
            await configs.update(
                zk_paths.BROKER_CONFIGS, entity, lambda found: _encrypted_again(found, old, encoder)
            )
            _log.info(
                "passwords among the settings of broker %s are encrypted with the new secret",
                entity,
            )

    def _encoder_of(self, secret: str | None) -> PasswordEncoder | None:
        if secret is None:
            return None
        return PasswordEncoder(secret, self._config, self._random_bytes)

    def _decoded(self, text: str) -> str:
        if text in self._known:
            return self._known[text]
        if self._encoder is None:
            raise UndecodablePasswordError("password.encoder.secret is not set")
        return self._encoder.decode(text)

    def _encoded(self, password: str) -> str:
        if self._encoder is None:
            message = "Password encoder secret not configured"
            raise KafkaError(ErrorCode.INVALID_CONFIG, message)
        return self._encoder.encode(password)


def _encrypted_again(stored: Overrides, old: PasswordEncoder, new: PasswordEncoder) -> Overrides:
    found = dict(stored)
    for name in filter(is_password, stored):
        try:
            found[name] = new.encode(old.decode(stored[name]))
        except UndecodablePasswordError:
            continue  # encrypted with the new one already, or with a third
    return found
