"""`kbroker cert show`: the certificates of a file, or those that a server presents."""

from __future__ import annotations

import os
import socket
import ssl
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.shown.output import output_option, print_rows

if TYPE_CHECKING:
    from kbroker.tls.certificate import Certificate

_COLUMNS = (
    "subject", "principal", "names", "issuer", "is_authority", "key", "private_key", "not_before",
    "not_after", "days_left", "wrong",
)  # fmt: skip
_PATIENCE_S = 5.0
_OTHER_KEY = "of another certificate"


@click.command(short_help="Say what stands in a certificate, and what is wrong with it.")
@click.argument("place", type=click.Path(), metavar="FILE|HOST:PORT")  # completes files
@output_option
def show(place: str, output: str) -> None:
    """Print whom the certificates of a PEM file, or of a server, are for, until when, and the
    principal that brokers read in them (without ssl.principal.mapping.rules).

    Of a server that is its own certificate, and those that it sends of the authorities between
    that and one which clients trust. A file may also be properties of a client with PEM in them.

    Exit code 1 if a certificate has expired, is not valid yet, is not for the HOST that was asked,
    or has another's key.
    """
    now = datetime.now(UTC)
    rows = _of_file(place, now) if os.path.exists(place) else _of_server(place, now)
    print_rows(rows, _COLUMNS, output)
    wrong = [f"{row['subject'] or place}: {row['wrong']}" for row in rows if row["wrong"]]
    if wrong:
        raise CommandError("; ".join(wrong), ExitCode.ITEM_FAILED)


def _of_file(path: str, now: datetime) -> list[dict[str, Any]]:
    from kbroker.certificates.certificate_files import certificates_of, pem_in

    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            pem = pem_in(file.read())
        found = certificates_of(pem)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}", ExitCode.USAGE) from error
    except ValueError as error:
        raise CommandError(f"{path} has no certificate to show: {error}", ExitCode.USAGE) from error
    rows = [_row(each, now) for each in found]
    rows[0]["private_key"] = key = _private_key(pem)
    if key == _OTHER_KEY:
        rows[0]["wrong"] = _joined(rows[0]["wrong"], "its key is of another certificate")
    return rows


def _of_server(place: str, now: datetime) -> list[dict[str, Any]]:
    from kbroker.certificates.certificate_files import is_for
    from kbroker.tls.certificate import parse_certificate

    host, colon, port = place.rpartition(":")
    host = host.strip("[]")
    if not colon or not port.isdecimal():
        raise CommandError(f"'{place}' is neither a file nor HOST:PORT", ExitCode.USAGE)
    try:
        chain = [parse_certificate(each) for each in _served(host, int(port))]
    except ValueError as error:
        raise CommandError(f"{place} has a certificate that cannot be read: {error}") from error
    rows = [_row(each, now) for each in chain]
    if not is_for(chain[0], host):
        rows[0]["wrong"] = _joined(rows[0]["wrong"], f"not for the name {host}")
    return rows


def _served(host: str, port: int) -> list[bytes]:
    """The certificates that the server sends in DER, its own first, trusted or not."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # it is looked at, and nothing is sent
    try:
        with socket.create_connection((host, port), timeout=_PATIENCE_S) as plain:
            try:
                with context.wrap_socket(plain, server_hostname=host) as secured:
                    return _chain(secured)
            except (ssl.SSLError, ConnectionError) as error:
                reason = "it closed the connection"
                if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
                    reason = error.reason or "it answered something else"
                raise CommandError(
                    f"{host}:{port} does not speak TLS, or wants a client's certificate first "
                    f"({reason})",
                    ExitCode.CANNOT_CONNECT,
                ) from error
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CommandError(
            f"cannot connect to {host}:{port}: {reason}", ExitCode.CANNOT_CONNECT
        ) from error


def _chain(secured: ssl.SSLSocket) -> list[bytes]:
    if sys.version_info >= (3, 13):
        return secured.get_unverified_chain()
    # There before it was made public.
    chain = secured._sslobj.get_unverified_chain()  # type: ignore[attr-defined]
    return [ssl.PEM_cert_to_DER_cert(each.public_bytes()) for each in chain]


def _row(certificate: Certificate, now: datetime) -> dict[str, Any]:
    from kbroker.certificates.certificate_files import names_of, principal_of

    return {
        "subject": certificate.subject,
        "principal": principal_of(certificate),
        "names": names_of(certificate),
        "issuer": certificate.issuer,
        "is_authority": certificate.is_authority,
        "key": certificate.key_kind,
        "not_before": certificate.begins.isoformat(),
        "not_after": certificate.ends.isoformat(),
        "days_left": (certificate.ends - now).days,
        "wrong": certificate.fault(now),
    }


def _private_key(pem: str) -> str:
    """Whether a PEM text has the key of its first certificate; OpenSSL says whether it fits."""
    from kbroker.certificates.certificate_files import has_encrypted_key, has_key
    from kbroker.tls.pem_files import private_file

    if not has_key(pem):
        return "not here"
    if has_encrypted_key(pem):
        return "has a pass phrase"
    with private_file(pem) as path:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path, password="")
        except (ssl.SSLError, ValueError) as error:
            is_other = getattr(error, "reason", None) == "KEY_VALUES_MISMATCH"
            return _OTHER_KEY if is_other else "cannot be read"
    return "fits"


def _joined(*sentences: str | None) -> str:
    return ", ".join(filter(None, sentences))
