"""Connections to an ensemble by TLS, on the thread that talks to it.

Law: files are read again for each connection, so that a new certificate counts from the next one
on; where they are no use, those before stay in force. Errors are OSErrors with a text for people.
"""

from __future__ import annotations

import errno
import logging
import re
import socket
import ssl

from kbroker.config.tls_settings import ClientTls
from kbroker.errors import ConfigError
from kbroker.tls.tls_context import client_context, other_suite
from kbroker.tls.tls_errors import (
    Distrusted,
    Words,
    distrust_sentence,
    distrusted,
    distrusted_by_alert,
)

_ALERT = re.compile(r"\[SSL: (\w+_ALERT_\w+)\]")

_log = logging.getLogger(__name__)


class TlsConnector:
    """Makes connections with the files as they are now. Owned by one thread."""

    def __init__(self, tls: ClientTls) -> None:
        """Read the files. Raises ConfigError."""
        self._tls = tls
        self._context = client_context(tls)
        self._fault: str | None = None

    def connect(self, address: tuple[str, int], host: str, timeout_s: float) -> ssl.SSLSocket:
        """Connect and shake hands; `host` is the server's name. Raises OSError."""
        self._read_again()
        plain = socket.create_connection(address, timeout_s)
        try:
            secured = self._context.wrap_socket(plain, server_hostname=host)
        except OSError as error:
            plain.close()
            raise _failed(host, address[1], self._reason(error, host)) from error
        except ValueError as error:  # no certificate can have such a name
            plain.close()
            raise _failed(host, address[1], str(error)) from error
        suite = other_suite(secured, self._tls.suites_of_1_3)
        if suite is not None:
            secured.close()
            raise _failed(host, address[1], f"it chose {suite}")
        return secured

    def _read_again(self) -> None:
        try:
            self._context = client_context(self._tls)
            self._fault = None
        except ConfigError as error:
            if str(error) != self._fault:
                self._fault = str(error)
                _log.warning("%s; what was read before stays in force", error)

    def explained(self, complaint: str) -> str:
        """Return kazoo's words about a connection that broke; TLS 1.3 refuses in a first answer."""
        alert = _ALERT.search(complaint)
        return complaint if alert is None else f"TLS: {self._refusal(alert[1])}"

    def _reason(self, error: OSError, host: str) -> str:
        found = distrusted(error)
        if found is not None and isinstance(error, ssl.SSLCertVerificationError):
            return self._sentence(found, host)
        if isinstance(error, TimeoutError):
            return "no answer in time"
        if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ConnectionError):
            return "it ends the handshake (is this its port for TLS?)"
        reason = getattr(error, "reason", None) or str(error)
        return self._refusal(reason) if "_ALERT_" in reason else reason

    def _refusal(self, alert: str) -> str:
        """The sentence for one of OpenSSL's names of alerts."""
        found = distrusted_by_alert(alert)
        why = f" ({alert})" if found is None else f": {self._sentence(found)}"
        return f"it refuses us{why}"

    def _sentence(self, found: Distrusted, host: str = "") -> str:
        words = Words(
            other="it",
            theirs="its certificate",
            ours="this broker's certificate",
            rename=(
                f"{host}: see zookeeper.connect, or zookeeper.ssl.endpoint.identification.algorithm"
            ),
            trust="see zookeeper.ssl.truststore.location",
            show="set zookeeper.ssl.keystore.location",
            be_trusted="see zookeeper.ssl.keystore.location, and its truststore",
            is_shown=self._tls.own is not None,
        )
        return distrust_sentence(found, words)


def _failed(host: str, port: int, reason: str) -> OSError:
    return OSError(errno.EPROTO, f"TLS with {host}:{port}: {reason}")
