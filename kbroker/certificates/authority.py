"""Authority: signs certificates for a broker and its clients, with a key of its own.

Law: what it signs passes the strict checks of RFC 5280 that Python 3.13 makes, and its keys are in
the one form that Java reads, PKCS 8 without a pass phrase. Needs the extra `kbroker[security]`.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_YEARS = timedelta(days=3650)
# The clock of the machine that checks may be behind.
_EARLIER = timedelta(hours=1)
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key, as PEM texts."""

    certificate: str
    key: str = field(repr=False)


class Authority:
    """Signs with the key that belongs to its certificate."""

    def __init__(self, certificate: x509.Certificate, key: Key) -> None:
        self._certificate, self._key = certificate, key

    @classmethod
    def made(cls, now: datetime, pem_of_key: str | None = None) -> Authority:
        """Make an authority for ten years, with a new key or the given one (PEM text). Raises
        ValueError that says what is wrong with the key.
        """
        key = ec.generate_private_key(ec.SECP256R1()) if pem_of_key is None else _key(pem_of_key)
        # Of two authorities that a client trusts, each has a name of its own.
        name = _name(f"kbroker authority {secrets.token_hex(4)}")
        builder = (
            _builder(name, name, key, now, now + _YEARS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def read(cls, certificate: str, key: str) -> Authority:
        """Read an authority from PEM texts. Raises ValueError that says what is wrong."""
        own = x509.load_pem_x509_certificate(certificate.encode())
        found = _key(key)
        if found.public_key() != own.public_key():
            raise ValueError("its key is not that of its certificate")
        return cls(own, found)

    @property
    def pem(self) -> Issued:
        """The certificate and key of the authority itself."""
        return Issued(_pem(self._certificate), _pem_of_key(self._key))

    @property
    def not_after(self) -> datetime:
        return self._certificate.not_valid_after_utc

    def issue(self, name: str, names: Iterable[str], now: datetime, days: int) -> Issued:
        """Sign a certificate for a new key, under the common name `name`, and for the host names
        and addresses `names`.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(
            _name(name), self._certificate.subject, key, now, now + timedelta(days=days)
        )
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(signer, critical=False)
        )
        alternative = [_general_name(each) for each in names]
        if alternative:
            builder = builder.add_extension(
                x509.SubjectAlternativeName(alternative), critical=False
            )
        return Issued(_pem(builder.sign(self._key, hashes.SHA256())), _pem_of_key(key))


def _key(pem: str) -> Key:
    try:
        found = serialization.load_pem_private_key(pem.encode(), password=None)
    except TypeError as error:
        raise ValueError("its key has a pass phrase") from error
    if not isinstance(found, Key):
        raise ValueError("its key is neither RSA nor EC")
    return found


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Key, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin.astimezone(UTC) - _EARLIER)
        .not_valid_after(end.astimezone(UTC))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _pem_of_key(key: Key) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
