"""Passwords in dynamic settings as Kafka keeps them: encrypted with a key that is derived from
`password.encoder.secret`, beside all that it takes to decrypt them with the secret.

    initializationVector:...,keyLength:128,salt:...,keyFactoryAlgorithm:PBKDF2WithHmacSHA512,
    cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:4096,passwordLength:6,encryptedPassword:...

in one line. Law: no error and no repr has a password, a secret or what is stored. Pure.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from kbroker.config.config_values import invalid_value
from kbroker.config.security_config import SecurityConfig
from kbroker.errors import ConfigError
from kbroker.security_extra import check_security_extra

RandomBytes = Callable[[int], bytes]

_CBC, _CTR, _GCM = "AES/CBC/PKCS5Padding", "AES/CTR/NoPadding", "AES/GCM/NoPadding"
_VECTOR_BYTES = {_CBC: 16, _CTR: 16, _GCM: 12}
_HASHES = {f"PBKDF2WithHmacSHA{bits}": f"sha{bits}" for bits in (1, 224, 256, 384, 512)}
_DEFAULT_KEY_FACTORY = "PBKDF2WithHmacSHA512"
_KEY_LENGTHS = (128, 192, 256)
_SALT_BYTES = 256
_BLOCK_BYTES, _TAG_BYTES = 16, 16
_MOST_ITERATIONS = 10_000_000  # 5 s; a setting that takes more would hold the broker


class UndecodablePasswordError(Exception):
    """A stored password that the secret does not open, or that is not one."""


class _Key(NamedTuple):
    """The derivation of a key."""

    factory: str
    length: int  # in bits
    salt: bytes
    iterations: int

    def derived(self, secret: str) -> bytes:
        import hashlib  # OpenSSL's library, which a broker without secrets does without

        name = _HASHES[self.factory]
        octets = self.length // 8
        return hashlib.pbkdf2_hmac(name, secret.encode(), self.salt, self.iterations, octets)


class PasswordEncoder:
    """Encrypts passwords for the tree, and decrypts what is there, with one secret."""

    def __init__(self, secret: str, config: SecurityConfig, random_bytes: RandomBytes) -> None:
        self._secret = secret
        self._key = partial(
            _Key,
            factory=config.password_encoder_keyfactory_algorithm or _DEFAULT_KEY_FACTORY,
            length=config.password_encoder_key_length,
            iterations=config.password_encoder_iterations,
        )
        self._cipher = config.password_encoder_cipher_algorithm
        self._random_bytes = random_bytes

    def encode(self, password: str) -> str:
        """Encrypt a password; its key takes a millisecond, or as long as the iterations say."""
        key = self._key(salt=self._random_bytes(_SALT_BYTES))
        vector = self._random_bytes(_VECTOR_BYTES[self._cipher])
        content = _encrypted(self._cipher, key.derived(self._secret), vector, password.encode())
        fields = {
            "initializationVector": _text(vector),
            "keyLength": key.length,
            "salt": _text(key.salt),
            "keyFactoryAlgorithm": key.factory,
            "cipherAlgorithm": self._cipher,
            **({"authenticationTagLength": _TAG_BYTES * 8} if self._cipher == _GCM else {}),
            "iterations": key.iterations,
            "passwordLength": _java_length(password),
            "encryptedPassword": _text(content),
        }
        return ",".join(f"{name}:{value}" for name, value in fields.items())

    def decode(self, text: str) -> str:
        """Decrypt what `encode` wrote, under whatever settings. Raises UndecodablePasswordError."""
        fields = dict(part.partition(":")[::2] for part in text.split(","))
        try:
            return _decoded(fields, self._secret)
        except (KeyError, ValueError):
            raise UndecodablePasswordError("it is not an encrypted password") from None


def check_password_encoder(config: SecurityConfig) -> None:
    """Raises ConfigError for settings by which no password could be encrypted, or if what does it
    is not installed. Without a secret nothing is.
    """
    if config.password_encoder_secret is None:
        if config.password_encoder_old_secret is not None:
            raise ConfigError(
                "password.encoder.old.secret is set, and password.encoder.secret is not: passwords "
                "are encrypted again with the second"
            )
        return
    factory = config.password_encoder_keyfactory_algorithm or _DEFAULT_KEY_FACTORY
    for name, value, possible in (
        ("keyfactory.algorithm", factory, tuple(_HASHES)),
        ("cipher.algorithm", config.password_encoder_cipher_algorithm, tuple(_VECTOR_BYTES)),
        ("key.length", config.password_encoder_key_length, _KEY_LENGTHS),
    ):
        if value not in possible:
            there = ", ".join(map(str, possible))
            raise invalid_value(f"password.encoder.{name}", value, f"kbroker has {there}")
    if config.password_encoder_iterations > _MOST_ITERATIONS:
        raise invalid_value(
            "password.encoder.iterations",
            config.password_encoder_iterations,
            f"Value must be no more than {_MOST_ITERATIONS}",
        )
    check_security_extra("cryptography", "password.encoder.secret")


def _decoded(fields: Mapping[str, str], secret: str) -> str:
    cipher = fields["cipherAlgorithm"]
    key = _Key(
        fields["keyFactoryAlgorithm"],
        int(fields["keyLength"]),
        base64.b64decode(fields["salt"]),
        int(fields["iterations"]),
    )
    is_known = cipher in _VECTOR_BYTES and key.factory in _HASHES and key.length in _KEY_LENGTHS
    if not is_known or not 0 < key.iterations <= _MOST_ITERATIONS:
        raise UndecodablePasswordError("it is encrypted in a way that kbroker does not have")
    vector = base64.b64decode(fields["initializationVector"])
    content = base64.b64decode(fields["encryptedPassword"])
    from cryptography.exceptions import InvalidTag

    try:
        password = _decrypted(cipher, key.derived(secret), vector, content).decode()
    except (ValueError, InvalidTag):
        password = None
    if password is None or _java_length(password) != int(fields["passwordLength"]):
        raise UndecodablePasswordError("it was encrypted with another secret")
    return password


def _encrypted(cipher: str, key: bytes, vector: bytes, content: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CBC, CTR

    if cipher == _GCM:
        return AESGCM(key).encrypt(vector, content, None)
    if cipher == _CBC:
        missing = _BLOCK_BYTES - len(content) % _BLOCK_BYTES
        content += bytes([missing]) * missing
    mode = CBC(vector) if cipher == _CBC else CTR(vector)
    encryptor = Cipher(AES(key), mode).encryptor()
    return encryptor.update(content) + encryptor.finalize()


def _decrypted(cipher: str, key: bytes, vector: bytes, content: bytes) -> bytes:
    """Raises ValueError or InvalidTag for another key."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CBC, CTR

    if cipher == _GCM:
        return AESGCM(key).decrypt(vector, content, None)
    mode = CBC(vector) if cipher == _CBC else CTR(vector)
    decryptor = Cipher(AES(key), mode).decryptor()
    plain = decryptor.update(content) + decryptor.finalize()
    if cipher != _CBC:
        return plain
    padding = plain[-1] if plain else 0
    if not 1 <= padding <= _BLOCK_BYTES or plain[-padding:] != bytes([padding]) * padding:
        raise ValueError("padding")
    return plain[:-padding]


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _java_length(password: str) -> int:
    """The characters as Java counts them, in UTF-16."""
    return len(password.encode("utf-16-be", "surrogatepass")) // 2
