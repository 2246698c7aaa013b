"""The contexts of TLS that settings describe.

Law: whatever is wrong with a file or a text is a ConfigError of one sentence with the setting's
name, and no secret is in it.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace

from kbroker.config.pem_text import certificates_in, private_key_in
from kbroker.config.tls_settings import ClientTls, Pem, TlsSettings
from kbroker.errors import ConfigError
from kbroker.small_files import read_small_file
from kbroker.tls.certificate import Certificate, first_certificate
from kbroker.tls.pem_files import private_file

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_FILE_BYTES_MAX = 16 * 1024 * 1024  # a bundle of all public authorities has 200 KiB


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ServerTls:
    """A context for accepted connections, and the certificate that it shows."""

    context: ssl.SSLContext
    certificate: Certificate
    suites_of_1_3: tuple[str, ...]  # those allowed; empty: all, as Python cannot restrict them


def server_context(tls: TlsSettings) -> ServerTls:
    """Make the context of a listener. Raises ConfigError."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, tls)
    context.options |= ssl.OP_IGNORE_UNEXPECTED_EOF  # clients just leave
    context.num_tickets = 1  # a client that connects again saves the signature
    certificate = load_own(context, tls.own, tls.key_password, tls.key_password_setting)
    context.verify_mode = _CLIENT_AUTH[tls.client_auth]
    if tls.trusted is not None and tls.client_auth != "none":
        load_trusted(context, tls.trusted)
    return ServerTls(context=context, certificate=certificate, suites_of_1_3=tls.suites_of_1_3)


def with_texts(tls: TlsSettings) -> TlsSettings:
    """The same settings with the texts of their files, so that they are equal as long as those are.
    Raises ConfigError.
    """
    trusted = None if tls.trusted is None else _read(tls.trusted, with_key=False)
    return replace(tls, own=_read(tls.own, with_key=True), trusted=trusted)


def other_suite(agreed: ssl.SSLSocket | ssl.SSLObject, allowed: tuple[str, ...]) -> str | None:
    """Return the suite of TLS 1.3 that a handshake has agreed on if it is none of those allowed,
    which Python can only find out afterwards. Without any in `allowed` all are.
    """
    suite, version, _ = agreed.cipher() or ("", "", 0)
    return suite if version == "TLSv1.3" and allowed and suite not in allowed else None


def client_context(tls: ClientTls) -> ssl.SSLContext:
    """Make the context of connections to servers. Raises ConfigError."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, tls)
    context.check_hostname = tls.checks_host_name
    if tls.own is not None:
        load_own(context, tls.own, tls.key_password, tls.key_password_setting)
    if tls.trusted is not None:
        load_trusted(context, tls.trusted)
    else:
        context.load_default_certs()
    return context


def _context(kind: int, tls: TlsSettings | ClientTls) -> ssl.SSLContext:
    context = ssl.SSLContext(kind)
    context.minimum_version = _VERSIONS[tls.versions[0]]
    context.maximum_version = _VERSIONS[tls.versions[-1]]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if tls.suites_of_1_2:
        context.set_ciphers(":".join(tls.suites_of_1_2))
    return context


def load_own(
    context: ssl.SSLContext, of: Pem, password: str | None, password_setting: str
) -> Certificate:
    """Load a key and its certificates into a context, and return the first. `password` is that of
    the key. Raises ConfigError.
    """
    own = _read(of, with_key=True)
    assert own.certificates is not None
    assert own.key is not None
    try:
        certificate = first_certificate(own.certificates)
        # Else the key would be blamed for it.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=own.certificates)
    except (OSError, ValueError) as error:
        raise _unusable(own, f"the certificate cannot be read ({_reason(error)})") from error
    is_encrypted = "ENCRYPTED" in own.key
    if is_encrypted and password is None:
        raise _unusable(own, f"the key is encrypted: set {password_setting}")
    try:
        with private_file(own.key + own.certificates) as path:
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(path, password=password or "")
    except (OSError, ValueError) as error:
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            fault = f"the key is not that of the certificate of {certificate.subject}"
        elif is_encrypted:
            fault = f"{password_setting} is not the password of the key"
        else:
            fault = f"the key cannot be used ({_reason(error)})"
        raise _unusable(own, fault) from error
    return certificate


def load_trusted(context: ssl.SSLContext, trusted: Pem) -> None:
    """Trust the certificates of a file or text. Raises ConfigError."""
    pem = _read(trusted, with_key=False)
    try:
        context.load_verify_locations(cadata=pem.certificates)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # Java needs no root either
    except (OSError, ValueError) as error:
        raise _unusable(pem, f"the certificates cannot be read ({_reason(error)})") from error


def _read(pem: Pem, *, with_key: bool) -> Pem:
    """The same with its file as texts, read in one go, as it may be replaced at any moment."""
    if pem.file is None or pem.certificates is not None:
        return pem
    try:
        text = read_small_file(pem.file, _FILE_BYTES_MAX).decode("latin-1")
    except OSError as error:
        raise _unusable(pem, error.strerror or str(error)) from error
    certificates = _part(pem, certificates_in, text)
    return replace(
        pem, certificates=certificates, key=_part(pem, private_key_in, text) if with_key else None
    )


def _part(pem: Pem, part: Callable[[str], str], text: str) -> str:
    try:
        return part(text)
    except ValueError as error:
        raise _unusable(pem, str(error)) from error


def _unusable(pem: Pem, fault: str) -> ConfigError:
    named = pem.setting if pem.file is None else f"{pem.setting}={pem.file}"
    return ConfigError(f"{named} cannot be used: {fault}")


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)
