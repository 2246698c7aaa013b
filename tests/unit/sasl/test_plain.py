"""The server's side of PLAIN, in Kafka's words."""

from __future__ import annotations

import pytest

from kbroker.sasl.exchange import Identity, LoginRefusedError
from kbroker.sasl.plain import PlainServer, check_of, plain_token


def server() -> PlainServer:
    return PlainServer(check_of({"jörg": "geheim", "empty": ""}))


@pytest.mark.parametrize("token", [plain_token("jörg", "geheim"), "jörg\0jörg\0geheim".encode()])
def test_who_knows_the_password_is_let_in(token: bytes) -> None:
    assert server().receive(token) == (b"", Identity("jörg"))


@pytest.mark.parametrize(
    ("token", "said"),
    [
        (b"\0j\xf6rg\0geheim", "Invalid username or password"),
        (plain_token("jörg", "wrong"), "Invalid username or password"),
        (plain_token("nobody", "geheim"), "Invalid username or password"),
        (plain_token("nobody", ""), "password not specified"),
        (plain_token("empty", ""), "password not specified"),
        (b"\0\0x", "username not specified"),
        ("admin\0jörg\0geheim".encode(), "id that is different from username"),
        (b"admin\0j\0wrong", "Invalid username or password"),
        (b"", "expected 3 tokens, got 1"),
        (b"a\0b", "expected 3 tokens, got 2"),
        (b"\0a\0b\0c\0d", "expected 3 tokens, got 4"),
    ],
)
def test_others_are_refused(token: bytes, said: str) -> None:
    with pytest.raises(LoginRefusedError) as caught:
        server().receive(token)

    assert said in caught.value.said
    assert "geheim" not in f"{caught.value}{caught.value.said}"
