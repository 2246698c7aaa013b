"""CertificateDirectory: the files of an authority and of what it has signed.

    ca.pem, ca.key          the authority; its key is needed to sign, by no broker and no client
    broker.pem              key and certificate of a broker
    NAME.pem                key and certificate of a client
    NAME.properties         the same for Java's clients and `--command-config`

Law: no file is replaced, but those that are to be renewed; each appears whole or not at all, and
those with a secret can be read by their owner alone.
"""

from __future__ import annotations

import ipaddress
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from kbroker.certificates.certificate_files import certificates_of, names_of
from kbroker.errors import ExplainedError, Trouble
from kbroker.security_extra import check_security_extra

if TYPE_CHECKING:
    from kbroker.certificates.authority import Authority, Issued

AUTHORITY, _AUTHORITY_KEY, BROKER = "ca.pem", "ca.key", "broker.pem"
_SECRET, _PUBLIC, _OPEN_TO_READ = 0o600, 0o644, 0o755
_CLIENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")  # of a common name, and of a file
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})"
_HOST = re.compile(rf"(?:\*\.)?(?:{_LABEL}\.)*(?!\d+$){_LABEL}\.?")
_BROKERS_NAME = "kbroker"
_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


class CertificateDirectoryError(ExplainedError):
    """The directory cannot be used so; the message is one sentence."""

    trouble = Trouble.CERTIFICATES


class CertificateDirectory:
    """A directory that has, or is to get, an authority and its certificates."""

    def __init__(self, path: str, *, renews: bool = False) -> None:
        """`renews`: certificates that are there are replaced, but not the authority."""
        self._path = path
        self.renews = renews

    def path_of(self, file: str) -> str:
        """The path of a file in the directory, from where the directory was named."""
        return os.path.join(self._path, file)

    def has(self, file: str) -> bool:
        return os.path.lexists(self.path_of(file))

    def authority(self, now: datetime) -> tuple[Authority, list[str]]:
        """The authority, made if the directory is empty or has its key alone, and the files that
        were made. Raises CertificateDirectoryError, also if the directory is of something else.
        """
        # Where it is missing, a sentence says so before anything is made.
        check_security_extra("cryptography", "a new certificate")
        from kbroker.certificates.authority import Authority

        has_certificate, has_key = self.has(AUTHORITY), self.has(_AUTHORITY_KEY)
        if has_certificate and not has_key:
            raise CertificateDirectoryError(
                f"{self._path} has {AUTHORITY}, but no {_AUTHORITY_KEY}: an authority needs both "
                "to sign"
            )
        self._check_alone("")
        key = self.text_of(_AUTHORITY_KEY) if has_key else None
        try:
            if has_certificate and key is not None:
                return Authority.read(self.text_of(AUTHORITY), key), []
            self._check_empty()
            # A key alone is what a killed start has left: nothing is signed by it yet.
            made = Authority.made(now, key)
        except ValueError as error:
            raise CertificateDirectoryError(
                f"the authority in {self._path} cannot be used: {error}"
            ) from error
        with _sentences(self._path):
            os.makedirs(self._path, _OPEN_TO_READ, exist_ok=True)
        if not has_key:
            self.write(_AUTHORITY_KEY, made.pem.key, is_secret=True)
        self.write(AUTHORITY, made.pem.certificate, is_secret=False)
        return made, [AUTHORITY, *([] if has_key else [_AUTHORITY_KEY])]

    def _check_empty(self) -> None:
        """Raises CertificateDirectoryError if there is anything but hidden files and a key."""
        with _sentences(self._path):
            found = os.listdir(self._path) if os.path.exists(self._path) else []
        ours = ("lost+found", _AUTHORITY_KEY)
        others = sorted(each for each in found if each[0] != "." and each not in ours)
        if others:
            raise CertificateDirectoryError(
                f"{self._path} has {others[0]}, but no {AUTHORITY}: choose a directory for "
                "certificates alone"
            )

    def text_of(self, file: str) -> str:
        """Read a file. Raises CertificateDirectoryError, also if it is not of this user, root or
        the owner of the directory: in one that all may write to, anybody could have put it there.
        So it does if others may change the file or its directory, or read a secret.
        """
        self._check_alone("")
        path = self.path_of(file)
        with _sentences(self._path), open(path, encoding="utf-8", errors="replace") as opened:
            status = os.fstat(opened.fileno())
            own = os.geteuid() if hasattr(os, "geteuid") else status.st_uid
            if status.st_uid not in (own, 0, os.stat(self._path).st_uid):
                raise CertificateDirectoryError(
                    f"{path} belongs to another user, number {status.st_uid}"
                )
            self._check_alone(file)
            return opened.read()

    def _check_alone(self, file: str) -> None:
        """Raises CertificateDirectoryError if anybody of this machine may write to the directory
        ("") or the file, or read a secret in it. Groups may: a container's volume is of one.
        """
        path = self.path_of(file) if file else self._path
        with _sentences(self._path), suppress(FileNotFoundError):
            mode = os.stat(path).st_mode if hasattr(os, "geteuid") else 0  # Windows has none
            if mode & stat.S_IWOTH:
                raise CertificateDirectoryError(
                    f"every user of this machine may write to {path}: `chmod o-w {path}` ends that"
                )
            if mode & stat.S_IROTH and file not in ("", AUTHORITY):
                raise CertificateDirectoryError(
                    f"every user of this machine may read the secret in {path}: `chmod o-r {path}` "
                    "ends that"
                )

    def write(self, file: str, text: str, *, is_secret: bool) -> None:
        """Write a file. Raises CertificateDirectoryError if it is there and is not renewed."""
        path = self.path_of(file)
        if self.has(file) and not self.renews:
            raise CertificateDirectoryError(f"{path} is there already: it is not replaced")
        half = self.path_of(f".{file}.new")
        with _sentences(self._path):
            with suppress(FileNotFoundError):
                os.unlink(half)  # of a process that was killed, or of a spy
            descriptor = os.open(
                half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _SECRET if is_secret else _PUBLIC
            )
            with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
                opened.write(text)
                opened.flush()
                os.fsync(descriptor)
            os.rename(half, path)

    def add(self, file: str, issued: Issued) -> list[str]:
        """Write a key with its certificate to a file. Return its name."""
        self.write(file, f"{issued.key}{issued.certificate}", is_secret=True)
        return [file]

    def names_of_broker(self) -> list[str]:
        """The names of the broker's certificate. Raises CertificateDirectoryError."""
        try:
            return names_of(certificates_of(self.text_of(BROKER))[0])
        except (ValueError, IndexError) as error:
            raise CertificateDirectoryError(
                f"{self.path_of(BROKER)} has no certificate that can be read"
            ) from error


def is_host(name: str) -> bool:
    """Whether a certificate can be for this: a host name, also with a wildcard, or an address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return _HOST.fullmatch(name) is not None
    return True


def make_certificates(
    directory: CertificateDirectory,
    *,
    hosts: Sequence[str],
    machine: str,
    clients: Sequence[str],
    now: datetime,
    days: int,
) -> list[str]:
    """Make what is missing of the authority, a broker's certificate and those of `clients`, for so
    many days. Return the new files.

    The broker's certificate is for `hosts`, for the name of this `machine`, and for localhost; a
    renewed one for `hosts` and all that the former one is for. A directory that renews does so
    with those of `clients`, or with the broker's if there are none. Raises
    CertificateDirectoryError before anything is made if all cannot be made.
    """
    for host in hosts:
        if not is_host(host):
            raise CertificateDirectoryError(f"'{host}' is neither a host name nor an address")
    for client in clients:
        _check_client(directory, client)
    needs_broker = not directory.has(BROKER) or (directory.renews and not clients)
    if not needs_broker:
        _check_is_for(directory, hosts)
    if directory.has(AUTHORITY) and not needs_broker and not clients:
        return []  # nothing is to be signed: the authority's key may be kept elsewhere
    authority, made = directory.authority(now)
    if now + timedelta(days=days) > authority.not_after:
        raise CertificateDirectoryError(
            f"{directory.path_of(AUTHORITY)} ends on {authority.not_after:%Y-%m-%d}: what it signs "
            "cannot last longer"
        )
    if needs_broker:
        names = [*hosts, *filter(is_host, [machine]), *_LOCAL_NAMES]
        if directory.has(BROKER):
            names = [*directory.names_of_broker(), *hosts]
        names = list(dict.fromkeys(names))
        made += directory.add(BROKER, authority.issue(_BROKERS_NAME, names, now, days))
    for client in dict.fromkeys(clients):
        issued = authority.issue(client, (), now, days)
        made += directory.add(f"{client}.pem", issued)
        text = client_properties(authority.pem.certificate, issued)
        directory.write(f"{client}.properties", text, is_secret=True)
        made.append(f"{client}.properties")
    return made


def _check_is_for(directory: CertificateDirectory, hosts: Sequence[str]) -> None:
    there = directory.names_of_broker()
    missing = [each for each in hosts if each not in there]
    if missing:
        options = " ".join(f"--host {each}" for each in missing)
        raise CertificateDirectoryError(
            f"{directory.path_of(BROKER)} is not for {', '.join(missing)}: `kbroker cert make "
            f"{os.path.dirname(directory.path_of(BROKER))} {options} --renew` makes another"
        )


def _check_client(directory: CertificateDirectory, client: str) -> None:
    if not _CLIENT.fullmatch(client):
        raise CertificateDirectoryError(
            f"'{client}' does not name a client: take at most 64 letters, digits, dots, dashes "
            "and underscores"
        )
    if f"{client}.pem" in (AUTHORITY, BROKER):
        raise CertificateDirectoryError(f"{client}.pem is not a client's: take another name")
    for file in (f"{client}.pem", f"{client}.properties"):
        if directory.has(file) and not directory.renews:
            raise CertificateDirectoryError(
                f"{directory.path_of(file)} is there already: --renew makes another"
            )


def client_properties(authority: str, issued: Issued) -> str:
    """The properties of a client with a certificate, whole in themselves."""
    return (
        "security.protocol=SSL\n"
        f"{trust_properties(authority)}"
        "ssl.keystore.type=PEM\n"
        f"ssl.keystore.certificate.chain={folded(issued.certificate)}\n"
        f"ssl.keystore.key={folded(issued.key)}\n"
    )


def trust_properties(authority: str) -> str:
    """The properties of a client that trusts this authority alone; PEM text."""
    return f"ssl.truststore.type=PEM\nssl.truststore.certificates={folded(authority)}\n"


def folded(text: str) -> str:
    r"""A text of several lines as the value of a property, on as many lines: Java and librdkafka's
    readers take `\n` for the end of a line, and a backslash at the end for one that goes on.
    """
    return "\\n\\\n".join(text.strip().splitlines())


@contextmanager
def _sentences(directory: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        where = error.filename or directory  # a full disk names no file
        raise CertificateDirectoryError(f"{where}: {reason}") from error
