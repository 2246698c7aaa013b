"""`kbroker token`, as those use it who have logged in, and the files by which workers log in."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.answers.logins import MODULE, Listening, listening
from compat_tests.answers.token_steps import PASSWORDS
from compat_tests.answers.tokens import WITH_TOKENS
from compat_tests.commands.command_line import CANNOT_CONNECT, ITEM_FAILED, Done, run

TOKEN_ID = re.compile(r"[\w-]{22}")


class Users:
    """A broker with tokens, and the commands of its users."""

    def __init__(self, broker: Listening, folder: Path) -> None:
        self.address = f"127.0.0.1:{broker.ports['SASL_PLAINTEXT']}"
        self.open = f"127.0.0.1:{broker.ports['PLAINTEXT']}"
        self.folder = folder
        for name, password in PASSWORDS.items():
            (folder / name).write_text(
                "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
                f"client.id={name}\nrequest.timeout.ms=20000\n"
                f"sasl.jaas.config={MODULE}.plain.PlainLoginModule required "
                f'username="{name}" password="{password}";\n'
            )

    def run(self, user: str, *arguments: str) -> Done:
        """A command of a user, or of who holds the file of that name."""
        file = str(self.folder / user)
        return run(*arguments, "--bootstrap", self.address, "--command-config", file)

    def rows(self, user: str, *arguments: str) -> list[dict[str, Any]]:
        done = self.run(user, "token", *arguments, "--output", "json")
        assert done.code == 0, done
        found: list[dict[str, Any]] = json.loads(done.out)
        return found


@pytest.fixture(scope="module")
def users(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    if target != "kbroker":
        pytest.skip("starts a kbroker with tokens")
    with listening(WITH_TOKENS, "SASL_PLAINTEXT") as broker:
        yield Users(broker, tmp_path_factory.mktemp("token"))


def test_a_worker_logs_in_by_the_file_of_a_token_until_it_is_ended(users: Users) -> None:
    made = users.run("ann", "token", "create", "--write", str(users.folder / "worker"))
    token_id = made.lines()[1].split()[0]
    written = users.folder / "worker"

    assert (made.code, made.lines()[0].split()) == (
        0, ["TOKEN", "OWNER", "RENEWERS", "EXPIRES", "ENDS"],
    )  # fmt: skip
    assert TOKEN_ID.fullmatch(token_id)
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    text = written.read_text()
    assert f'username="{token_id}"' in text
    assert "request.timeout.ms=20000" in text
    assert "client.id" not in text
    assert "ann-secret" not in text
    assert users.run("worker", "topic", "create", "t").code == 0
    said = users.run("worker", "token", "create").refused(ITEM_FAILED)
    assert "nobody gets one by a token" in said
    assert "ann-secret" not in users.run("ann", "token", "create", "--write", str(written)).err
    assert written.read_text() == text

    ended = users.run("ann", "token", "expire", token_id)
    assert ended.lines()[1].split()[0] == token_id
    said = users.run("worker", "topic", "list").refused(CANNOT_CONNECT)
    assert f"the broker refuses the delegation token {token_id}" in said


def test_tokens_are_made_shown_renewed_and_ended_by_those_who_may(users: Users) -> None:
    (made,) = users.rows(
        "ann", "create", "--renewer", "bob", "--owner", "User:ann", "--lifetime", "2d"
    )
    token_id = made["token"]

    assert (made["owner"], made["renewers"]) == ("User:ann", ["User:bob"])
    assert len(made["hmac"]) == 88
    (shown,) = users.rows("bob", "list", token_id)
    assert "hmac" not in shown
    assert shown["ends"] == made["ends"]
    assert [each["hmac"] for each in users.rows("bob", "list", token_id, "--hmac")] == [
        made["hmac"]
    ]
    assert token_id in {each["token"] for each in users.rows("bob", "list", "--owner", "ann")}
    assert users.rows("zoe", "list", "--owner", "zoe") == []
    (renewed,) = users.rows("bob", "renew", token_id, "--for", "30h")
    assert renewed["expires"] > made["expires"]
    failed = users.run("zoe", "token", "renew", token_id, "unknown")
    assert failed.code == ITEM_FAILED
    assert "only its owner and its renewers may" in failed.err
    assert "no such token: unknown" in failed.err
    (ended,) = users.rows("ann", "expire", token_id, "--in", "5m")
    assert ended["expires"] < made["expires"]
    users.rows("bob", "expire", token_id)
    said = users.run("bob", "token", "list", token_id).err
    assert f"no such token: {token_id}" in said


def test_a_refusal_says_what_to_do_and_leaves_no_file(users: Users) -> None:
    file = users.folder / "none"
    said = run("token", "create", "--write", str(file), "--bootstrap", users.open)

    assert "without a login" in said.refused(ITEM_FAILED)
    assert not file.exists()
    assert "like User:ann" in users.run("ann", "token", "create", "--renewer", "Group:x").err
    nowhere = users.run("ann", "token", "create", "--write", "/nowhere/file")
    assert "cannot be written" in nowhere.refused(ITEM_FAILED)
