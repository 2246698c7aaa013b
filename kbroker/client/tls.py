"""TLS of a link: the context made of `Tls`, and OpenSSL's errors as sentences for a person."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from kbroker.client.client_error import ClientError
from kbroker.client.connection_settings import Tls
from kbroker.client.exit_code import ExitCode
from kbroker.tls.pem_files import private_file
from kbroker.tls.tls_errors import Words, distrust_sentence, distrusted


@lru_cache(maxsize=8)
def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return the context for these settings, whose files it reads. Raises ClientError."""
    if tls.context is not None:
        return tls.context
    try:
        context = ssl.create_default_context(cafile=tls.ca_file, cadata=tls.ca_text)
    except (OSError, ValueError) as error:  # ssl's own errors are OSErrors
        raise _unusable("the trusted certificates", tls.ca_file, error) from error
    context.check_hostname = tls.checks_host_name
    if not tls.checks_certificate:
        context.verify_mode = ssl.CERT_NONE
    try:
        with _own_files(tls) as (certificate, key):
            if certificate is not None:
                # Without a password OpenSSL would ask for one at the terminal.
                context.load_cert_chain(certificate, key, password=tls.key_password or "")
    except (OSError, ValueError) as error:
        named = " and ".join(filter(None, (tls.certificate_file, tls.key_file)))
        raise _unusable("the client certificate and its key", named, error) from error
    return context


def secured(plain: socket.socket, host: str, tls: Tls) -> ssl.SSLSocket:
    """Return the socket after the handshake. Raises OSError, which `tls_reason` explains."""
    return tls_context(tls).wrap_socket(plain, server_hostname=host)


def tls_reason(error: OSError, host: str, tls: Tls) -> str | None:
    """Return what to do if a side does not trust the other's certificate; None for other errors."""
    found = distrusted(error)
    if found is None:
        return None
    words = Words(
        other="the broker",
        theirs="the broker's certificate",
        ours="the client's certificate",
        rename=(
            f"{host}: connect by a name that it holds, or switch the check off with "
            "ssl.endpoint.identification.algorithm=none"
        ),
        trust="give the certificate of its authority as a PEM file, ssl.ca.location=FILE",
        show="give ssl.certificate.location and ssl.key.location",
        be_trusted=(
            "give one that the broker trusts (ssl.certificate.location, ssl.key.location), or its "
            "authority to the broker"
        ),
        is_shown=bool(tls.certificate_file or tls.certificate_text or tls.context),
    )
    return distrust_sentence(found, words)


@contextmanager
def _own_files(tls: Tls) -> Iterator[tuple[str | None, str | None]]:
    """Yield the files of certificate and key; texts get one for this moment."""
    if tls.certificate_text is None or tls.key_text is None:
        yield tls.certificate_file, tls.key_file
        return
    with private_file(f"{tls.key_text}\n{tls.certificate_text}\n") as path:
        yield path, None


def _unusable(what: str, file: str | None, error: Exception) -> ClientError:
    where = f" of {file}" if file else ""
    reason = getattr(error, "strerror", None) or str(error)
    if isinstance(error, ssl.SSLError):
        reason = f"they are not PEM, do not fit, or ssl.key.password is wrong ({reason})"
    return ClientError(f"{what}{where} cannot be used: {reason}", ExitCode.USAGE)
