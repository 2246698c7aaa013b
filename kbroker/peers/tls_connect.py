"""TlsConnect: opens connections to other brokers over TLS.

A context is made again when the settings or the files that they name have changed, so that every
new connection has the certificates of now. Files that are no use leave the last context in force.

Owned by the event loop.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from functools import partial

from kbroker.config.tls_settings import ClientTls
from kbroker.errors import ConfigError
from kbroker.peers.broker_connection import BrokerConnection
from kbroker.peers.way import NotLetInError
from kbroker.tls.pem_files import file_stamp
from kbroker.tls.tls_context import client_context
from kbroker.tls.tls_errors import Words, distrust_sentence, distrusted
from kbroker.tls.tls_transport import open_tls

_log = logging.getLogger(__name__)


_Stamp = tuple[object, ...]


class TlsConnect:
    """Connects as `Connect` says; the handshakes that fail are NotLetInError."""

    def __init__(self, tls: Callable[[], ClientTls]) -> None:
        """`tls` are the settings in force, which may raise ConfigError. Raises ConfigError for
        files that are no use.
        """
        self._tls = tls
        now = tls()
        self._stamp = _stamp(now)
        self._context = client_context(now)
        self._suites_of_1_3 = now.suites_of_1_3

    async def __call__(self, make: Callable[[], BrokerConnection], host: str, port: int) -> None:
        """Open a connection. Raises OSError."""
        self._look()
        explain = partial(_explained, host, port)
        await open_tls(make, (host, port), self._context, explain, self._suites_of_1_3)

    def _look(self) -> None:
        """Make a new context if something has changed."""
        try:
            tls = self._tls()
            stamp = _stamp(tls)
            if stamp == self._stamp:
                return
            self._stamp = stamp
            self._context = client_context(tls)
            self._suites_of_1_3 = tls.suites_of_1_3
        except ConfigError as error:
            _log.warning("connections to other brokers go on with the last certificates: %s", error)


async def connect_unverified(make: Callable[[], BrokerConnection], host: str, port: int) -> None:
    """Open a connection to whoever it may be, to see whether somebody is there. Raises OSError,
    NotLetInError only if the other side says so.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    await open_tls(make, (host, port), context, partial(_explained_to_nobody, host, port))


def _explained_to_nobody(host: str, port: int, error: OSError) -> OSError:
    has_said_so = "ALERT" in (getattr(error, "reason", None) or "")
    return _explained(host, port, error) if has_said_so else error


def _stamp(tls: ClientTls) -> _Stamp:
    """The settings with what shows that their files are others."""
    stores = (tls.own, tls.trusted)
    files = [store.file for store in stores if store is not None and store.file is not None]
    return tls, *map(file_stamp, files)


def _explained(host: str, port: int, error: OSError) -> OSError:
    """The error of TLS as one that says what has to be put right."""
    peer = f"the broker at {host}:{port}"
    found = distrusted(error)
    if found is None:
        if not isinstance(error, ssl.SSLError):
            return error
        said = getattr(error, "reason", None) or error
        return NotLetInError(
            f"TLS with {peer} fails ({said}): does it listen without TLS there, or with other "
            "versions and suites?"
        )
    words = Words(
        other=peer,
        theirs=f"the certificate of {peer}",
        ours="the certificate of this broker",
        rename=(
            f"{host}: advertise a name that it holds, or set ssl.endpoint.identification.algorithm "
            "to nothing"
        ),
        trust="add its authority to ssl.truststore",
        show="set ssl.keystore.location here",
        be_trusted="the other's ssl.truststore needs the authority of this ssl.keystore",
    )
    return NotLetInError(distrust_sentence(found, words))
