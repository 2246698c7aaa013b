"""BrokerTls: the TLS of a broker's listeners, and certificates that change while it runs.

Certificates are read again when settings change, when the operator asks for it, and when a look at
their files shows that these are others.

Law: what is in force stays until all that shall replace it can be used; a broker does not become
another by a new certificate unless its settings allow that. Open connections keep their keys.

Owned by the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from kbroker.clock import ClockWithTimer, TimerHandle
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.tls_settings import TlsSettings, tls_settings
from kbroker.errors import ConfigError
from kbroker.model import WITH_TLS, EndPoint
from kbroker.network.handshakes import Handshakes
from kbroker.network.tls_wire import TlsListener
from kbroker.server.broker.broker_principals import BrokerPrincipals
from kbroker.tls.certificate import Certificate
from kbroker.tls.pem_files import FileStamp, file_stamp
from kbroker.tls.tls_context import ServerTls, server_context, with_texts

_log = logging.getLogger(__name__)

LOOK_MS = 5_000.0


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class _InForce:
    """The TLS of one listener as it is now."""

    made_of: TlsSettings  # with the texts of its files
    listener: TlsListener
    seen: dict[str, FileStamp]


def check_tls(config: KafkaConfig, listener: str) -> None:
    """Raises ConfigError if the TLS of a listener, or its files, cannot be used."""
    server_context(tls_settings(config, listener))


class BrokerTls:
    """All listeners of one broker that have TLS."""

    def __init__(self, config: KafkaConfig, clock: ClockWithTimer) -> None:
        """Raises ConfigError for settings and files that cannot be used."""
        self._config = config
        self._clock = clock
        self._handshakes = Handshakes()
        self._timer: TimerHandle | None = None
        self._listeners = {
            each.listener_name: self._made(config, each.listener_name)
            for each in config.end_points()
            if each.security_protocol in WITH_TLS
        }

    def at(self, listener: EndPoint) -> TlsListener:
        """The TLS of a listener."""
        return self._listeners[listener.listener_name].listener

    def settings_at(self, listener: str) -> TlsSettings:
        """The settings in force of a listener, with the texts of its files; any thread may ask."""
        return self._listeners[listener].made_of

    def start(self) -> None:
        """Look at the files from time to time."""
        self._timer = self._clock.call_later(LOOK_MS, self._look)

    def stop(self) -> None:
        """End the threads and the looks."""
        if self._timer is not None:
            self._timer.cancel()
        self._handshakes.close()

    def take(self, config: KafkaConfig) -> None:
        """Take over settings in force; with the same ones, files are read again. What cannot be
        used is logged.
        """
        self._config = config
        for name, in_force in self._listeners.items():
            try:
                self._renew(config, name, in_force)
            except ConfigError as error:
                _log.error("the TLS of listener %s stays as it is: %s", name, error)

    def read_again(self) -> None:
        """Read all files again."""
        self.take(self._config)

    def check(self, config: KafkaConfig) -> None:
        """Raises ConfigError if settings, or their files, cannot replace those in force."""
        for name, in_force in self._listeners.items():
            self._read(config, name, in_force)

    def _made(self, config: KafkaConfig, name: str) -> _InForce:
        settings = with_texts(tls_settings(config, name))
        tls = server_context(settings)
        self._warn_if_out_of_date(settings, tls)
        listener = TlsListener(tls, self._handshakes, BrokerPrincipals(config, name).settle)
        return _InForce(made_of=settings, listener=listener, seen=_seen(_files(settings)))

    def _renew(self, config: KafkaConfig, name: str, in_force: _InForce) -> None:
        in_force.seen = _seen(_files(tls_settings(config, name)))
        settings, tls = self._read(config, name, in_force)
        if tls is None:
            return
        self._warn_if_out_of_date(settings, tls)
        in_force.made_of, in_force.listener.tls = settings, tls
        certificate = tls.certificate
        _log.info(
            "listener %s has new keys: the certificate of %s, valid until %s",
            name, certificate.subject, f"{certificate.ends:%Y-%m-%d}",
        )  # fmt: skip

    @staticmethod
    def _read(
        config: KafkaConfig, name: str, in_force: _InForce
    ) -> tuple[TlsSettings, ServerTls | None]:
        """Read what replaces the TLS in force; None if that is of the same settings and texts."""
        settings = with_texts(tls_settings(config, name))
        if settings == in_force.made_of:
            return settings, None
        tls = server_context(settings)
        _check_same_broker(config, settings, in_force.listener.tls.certificate, tls.certificate)
        return settings, tls

    def _warn_if_out_of_date(self, settings: TlsSettings, tls: ServerTls) -> None:
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        fault = tls.certificate.fault(now)
        if fault is not None:
            _log.warning("%s: the certificate %s", settings.own.setting, fault)

    def _look(self) -> None:
        self._timer = self._clock.call_later(LOOK_MS, self._look)
        if any(_seen(each.seen) != each.seen for each in self._listeners.values()):
            self.read_again()


def _check_same_broker(
    config: KafkaConfig, settings: TlsSettings, before: Certificate, after: Certificate
) -> None:
    """Raises ConfigError if a new certificate names another broker, as Kafka does."""
    ssl, named = config.ssl, settings.own.setting
    if before.subject != after.subject and not ssl.ssl_allow_dn_changes:
        raise ConfigError(
            f"{named}: the new certificate is of {after.subject}, the one in force of "
            f"{before.subject}: restart the broker, which takes it; ssl.allow.dn.changes=true "
            "would allow that"
        )
    missing = before.alternative_names - after.alternative_names
    if missing and not ssl.ssl_allow_san_changes:
        raise ConfigError(
            f"{named}: the new certificate lacks the names {', '.join(sorted(missing))} of the one "
            "in force: make it for these, too, or restart the broker; ssl.allow.san.changes=true "
            "would allow that"
        )


def _files(settings: TlsSettings) -> list[str]:
    stores = (settings.own, settings.trusted)
    return [each.file for each in stores if each is not None and each.file is not None]


def _seen(files: Iterable[str]) -> dict[str, FileStamp]:
    return {file: file_stamp(file) for file in files}
