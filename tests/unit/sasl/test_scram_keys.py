"""Credentials as Kafka writes them to the tree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kbroker.sasl.scram_keys import SCRAM_MECHANISMS, ScramCredential

SHA_256 = SCRAM_MECHANISMS["SCRAM-SHA-256"]
TREE = Path(__file__).parents[2] / "golden" / "zookeeper" / "12-scram-users-set.jsonl"


def credentials_of_kafka() -> dict[str, str]:
    found: dict[str, str] = {}
    for line in TREE.read_text().splitlines():
        entry = json.loads(line)
        for change in (entry, *entry.get("ops", ())):
            if change.get("path", "").startswith("/config/users/") and change.get("data"):
                found |= json.loads(change["data"])["config"]
    return {name: text for name, text in found.items() if name in SCRAM_MECHANISMS}


def test_kafkas_own_credentials_are_read_and_written_again_byte_for_byte() -> None:
    credentials = credentials_of_kafka()

    assert credentials.keys() == SCRAM_MECHANISMS.keys()
    for name, text in credentials.items():
        assert str(ScramCredential.parse(SCRAM_MECHANISMS[name], text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "salt=c2FsdA==",
        "salt=c2FsdA==,stored_key=AAAA,server_key=AAAA,iterations=4096",
        "salt=?,stored_key={key},server_key={key},iterations=4096",
        "salt=c2FsdA==,stored_key={key},server_key={key},iterations=-1",
        "salt=c2FsdA==,stored_key={key},server_key={key},iterations=9999999999",
        "salt=c2FsdA==,stored_key={key},server_key={key},iterations=4096,salt=c2FsdA==",
        "salt=c2FsdA==,stored_key={key},server_key={key},more=4096",
    ],
)
def test_what_is_no_credential_is_refused_without_being_repeated(text: str) -> None:
    key = "A" * 43 + "="
    with pytest.raises(ValueError, match="a ") as caught:
        ScramCredential.parse(SHA_256, text.format(key=key))

    assert "AAAA" not in str(caught.value)


def test_a_credential_that_is_printed_says_no_secret() -> None:
    credential = ScramCredential.of_password(SHA_256, "secret", b"salt", 4096)

    assert repr(credential) == "ScramCredential(iterations=4096)"
