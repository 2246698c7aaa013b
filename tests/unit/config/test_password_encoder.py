"""Encrypted passwords are those of Apache Kafka 3.9.2, byte for byte, which wrote the golden ones."""

from __future__ import annotations

import base64
import csv
from pathlib import Path

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.password_encoder import (
    PasswordEncoder,
    UndecodablePasswordError,
    check_password_encoder,
)
from kbroker.config.security_config import SecurityConfig
from kbroker.errors import ConfigError

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "passwords" / "encoded-3.9.2.tsv"
ROWS = list(csv.DictReader(GOLDEN.open(encoding="utf-8"), delimiter="\t"))
SECRET, PASSWORD = "the-secret", "päss wort"


def settings(row: dict[str, str]) -> SecurityConfig:
    return SecurityConfig(
        password_encoder_cipher_algorithm=row["cipher"],
        password_encoder_key_length=int(row["key_length"]),
        password_encoder_keyfactory_algorithm=row["key_factory"],
        password_encoder_iterations=int(row["iterations"]),
    )


def field(encoded: str, name: str) -> bytes:
    return base64.b64decode(dict(part.split(":") for part in encoded.split(","))[name])


def encoder(secret: str = SECRET) -> PasswordEncoder:
    return PasswordEncoder(secret, SecurityConfig(), bytes)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["cipher"])
def test_passwords_are_encrypted_and_decrypted_as_by_kafka(row: dict[str, str]) -> None:
    drawn = iter([field(row["encoded"], "salt"), field(row["encoded"], "initializationVector")])
    with_its_draws = PasswordEncoder(SECRET, settings(row), lambda _: next(drawn))

    assert with_its_draws.encode(PASSWORD) == row["encoded"]
    assert encoder().decode(row["encoded"]) == PASSWORD
    with pytest.raises(UndecodablePasswordError, match="another secret"):
        encoder("another").decode(row["encoded"])


@pytest.mark.parametrize("password", ["", "x" * 16, "😀" * 40])
def test_any_password_comes_back(password: str) -> None:
    assert encoder().decode(encoder().encode(password)) == password


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (ROWS[0]["encoded"], "a password in plain text"),
        ("AES/CBC/PKCS5Padding", "DES/CBC/PKCS5Padding"),
        ("iterations:4096", "iterations:2000000000"),
        ("iterations:4096", "iterations:many"),
        ("keyLength:128", "keyLength:7"),
        ("passwordLength:9", "passwordLength:8"),
        ("salt:", "sugar:"),
        ("initializationVector:", "initializationVector:A"),
        ("encryptedPassword:", "encryptedPassword:AAAA"),
    ],
)
def test_what_is_no_password_of_ours_is_refused_without_its_text(old: str, new: str) -> None:
    stored = ROWS[0]["encoded"].replace(old, new)
    with pytest.raises(UndecodablePasswordError) as refusal:
        encoder().decode(stored)
    assert stored not in str(refusal.value)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"old.secret": "x"}, "old.secret is set, and password.encoder.secret is not"),
        ({"secret": "x", "cipher.algorithm": "AES/ECB/PKCS5Padding"}, "kbroker has AES/CBC"),
        ({"secret": "x", "keyfactory.algorithm": "PBKDF2WithHmacMD5"}, "PBKDF2WithHmacSHA512"),
        ({"secret": "x", "key.length": "100"}, "kbroker has 128, 192, 256"),
        ({"secret": "x", "iterations": "2000000000"}, "must be no more than"),
    ],
)
def test_half_of_an_encoder_is_refused(given: dict[str, str], sentence: str) -> None:
    texts = {f"password.encoder.{name}": text for name, text in given.items()}
    with pytest.raises(ConfigError, match=sentence):
        check_password_encoder(KafkaConfig(texts).security)


def test_without_its_library_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kbroker.security_extra.find_spec", lambda _: None)
    check_password_encoder(SecurityConfig())
    with pytest.raises(ConfigError, match=r"pip install 'kbroker\[security\]'"):
        check_password_encoder(SecurityConfig(password_encoder_secret=SECRET))
