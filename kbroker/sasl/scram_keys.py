"""ScramMechanism, its keys and signatures (RFC 5802, section 3), and ScramCredential as Kafka keeps
it under /config/users. Pure.

Law: from a credential nobody gets the password, nor can they log in by it: it has the hash of the
client's key only. Its repr says nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

ITERATIONS_MIN = 4_096  # as Kafka: fewer would let a listener guess the password
ITERATIONS_MAX = 16_384  # as Kafka, of what a client asks for: each login costs them again
OWN_ITERATIONS = 8_192  # of `kbroker user`: twice Kafka's least; a login costs its client 5 ms
OWN_SALT_BYTES = 24
KAFKAS_SALT_BITS = 130  # of its tools
_SALT_DIGITS = string.digits + string.ascii_lowercase
_KAFKAS_SALT_BYTES = range(20, 27)  # with fewer bits set, by chance, a number is shorter
_DIGITS_MAX = 9
_KEPT_MAX = 16  # of salted passwords


class ScramMechanism(NamedTuple):
    """A hash, and the name that Kafka gives to logins by it."""

    sasl_name: str
    hash_name: str  # as hashlib knows it

    @property
    def key_bytes(self) -> int:
        return hashlib.new(self.hash_name).digest_size

    def mac(self, key: bytes, message: bytes) -> bytes:
        """Sign a message: HMAC of the RFC."""
        return hmac.digest(key, message, self.hash_name)

    def hashed(self, key: bytes) -> bytes:
        """Make a stored key of a client's key: H of the RFC."""
        return hashlib.new(self.hash_name, key).digest()

    def client_key(self, salted: bytes) -> bytes:
        return self.mac(salted, b"Client Key")

    def server_key(self, salted: bytes) -> bytes:
        return self.mac(salted, b"Server Key")

    def salted(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Derive the salted password, which takes about a microsecond an iteration.

        As in Kafka, no SASLprep: the password is its UTF-8.
        """
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)


Derive = Callable[[ScramMechanism, str, bytes, int], bytes]
"""Derives a salted password: mechanism, password, salt, iterations; as `ScramMechanism.salted`."""


class SaltedPasswords:
    """Derives salted passwords, and keeps the last few: all brokers of a cluster ask a user for the
    same one, and each again at every login. Its repr says nothing.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[tuple[ScramMechanism, str, bytes, int], bytes] = {}

    def derive(
        self, mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
    ) -> bytes:
        """Derive one, or find it. Any thread may ask."""
        wanted = mechanism, password, salt, iterations
        salted = self._kept.get(wanted)
        if salted is None:
            salted = mechanism.salted(password, salt, iterations)
            if len(self._kept) >= _KEPT_MAX:
                self._kept.clear()
            self._kept[wanted] = salted
        return salted


SCRAM_MECHANISMS = {
    name: ScramMechanism(name, hash_name)
    for name, hash_name in (("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512"))
}

# As they are numbered in requests.
MECHANISM_NUMBERS = dict(enumerate(SCRAM_MECHANISMS.values(), 1))


@dataclass(frozen=True, slots=True, repr=False)
class ScramCredential:
    """A user's credential of one mechanism: enough to check a proof, too little to make one."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @classmethod
    def of_password(
        cls, mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
    ) -> ScramCredential:
        """Derive a credential, which takes about a microsecond an iteration."""
        salted = mechanism.salted(password, salt, iterations)
        return cls.of_salted(mechanism, salted, salt, iterations)

    @classmethod
    def of_salted(
        cls, mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
    ) -> ScramCredential:
        """Make a credential of a password that was salted so."""
        stored_key = mechanism.hashed(mechanism.client_key(salted))
        return cls(salt, stored_key, mechanism.server_key(salted), iterations)

    @property
    def is_strong(self) -> bool:
        """Whether a login may be by it; by weak ones a listener could guess the password."""
        return self.iterations >= ITERATIONS_MIN

    @classmethod
    def parse(cls, mechanism: ScramMechanism, text: str) -> ScramCredential:
        """Read `salt=...,stored_key=...,server_key=...,iterations=4096`, in any order.

        Raises ValueError without repeating the text.
        """
        parts = [part.partition("=")[::2] for part in text.split(",")]
        fields = dict(parts)
        if len(parts) != 4 or fields.keys() != {"salt", "stored_key", "server_key", "iterations"}:
            raise ValueError(f"a credential of {mechanism.sasl_name} has other fields")
        iterations = fields["iterations"]
        if not (iterations.isascii() and iterations.isdecimal()) or len(iterations) > _DIGITS_MAX:
            raise ValueError(f"a credential of {mechanism.sasl_name} has no number of iterations")
        stored_key, server_key = decoded(fields["stored_key"]), decoded(fields["server_key"])
        if {len(stored_key), len(server_key)} != {mechanism.key_bytes}:
            raise ValueError(f"a key of {mechanism.sasl_name} has {mechanism.key_bytes} bytes")
        return cls(decoded(fields["salt"]), stored_key, server_key, int(iterations))

    def __str__(self) -> str:
        """As Kafka writes it to the tree."""
        return (
            f"salt={encoded(self.salt)},stored_key={encoded(self.stored_key)},"
            f"server_key={encoded(self.server_key)},iterations={self.iterations}"
        )

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


def kafkas_salt(number: int) -> bytes:
    """Write a number of `KAFKAS_SALT_BITS` as Kafka's tools do for a salt: with digits and letters.

    >>> kafkas_salt(35), kafkas_salt(36)
    (b'z', b'10')
    """
    digits = ""
    while number:
        number, digit = divmod(number, len(_SALT_DIGITS))
        digits = _SALT_DIGITS[digit] + digits
    return digits.encode()


def is_kafkas_salt(salt: bytes) -> bool:
    """Whether a salt looks like those of Kafka's tools."""
    return len(salt) in _KAFKAS_SALT_BYTES and not salt.strip(_SALT_DIGITS.encode())


def encoded(content: bytes) -> str:
    """Write bytes as messages and credentials have them: base64 with padding."""
    return base64.b64encode(content).decode()


def decoded(text: str) -> bytes:
    """Read what `encoded` wrote. Raises ValueError without repeating the text."""
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise ValueError("a field is not base64") from None
