from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kbroker.console.web.web_request import (
    MOST_BODY_BYTES,
    Bodies,
    Fields,
    RefusedError,
    address,
    fields_of,
    request_of,
    segments_of,
)


def sent(*pieces: bytes) -> Callable[[], Awaitable[dict[str, Any]]]:
    waiting = list(pieces)

    async def receive() -> dict[str, Any]:
        if not waiting:
            return {"type": "http.disconnect"}
        piece = waiting.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(waiting)}

    return receive


def test_names_with_any_characters_come_through_an_address() -> None:
    name = "a/b c?d=é%#"

    path, _, query = address("groups", name, q=name).partition("?")

    assert segments_of(path) == ("groups", name)
    assert fields_of(query.encode()).text("q") == name


def test_fields_are_read_with_their_kind() -> None:
    fields = fields_of(b"n=7&t=+x+&b=1&empty=&page=0&twice=a&twice=b&e=+a%0D%0Ab")

    assert (fields.number("n", 1), fields.number("none", 1)) == (7, 1)
    assert fields.optional_number("empty") is None
    assert (fields.text("t"), fields.text("empty", "d"), fields.text("twice")) == ("x", "d", "b")
    assert (fields.flag("b"), fields.flag("empty")) == (True, False)
    assert fields.page() == 1
    assert fields.exact("e") == " a\nb"


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "1" * 20, "\u0661"])
def test_what_is_not_a_number_is_refused(text: str) -> None:
    with pytest.raises(RefusedError, match="n is a number"):
        Fields({"n": [text]}).number("n", 0)


def test_a_query_may_not_have_any_number_of_fields() -> None:
    with pytest.raises(RefusedError):
        fields_of(b"a=1&" * 1_000)


def test_a_page_is_addressed_with_changes_of_its_query() -> None:
    request = request_of(
        {
            "method": "HEAD",
            "path": "/topics/a/b",
            "raw_path": b"/topics/a%2Fb",
            "query_string": b"q=x%26y&page=2",
            "headers": [(b"accept", b"text/html")],
        }
    )

    assert request.with_query(page=3) == "/topics/a%2Fb?q=x%26y&page=3"
    assert request.with_query(q=None, page=None) == "/topics/a%2Fb"
    assert (request.method, request.headers) == ("GET", {"accept": "text/html"})


async def test_a_body_comes_in_pieces_and_has_a_largest_size() -> None:
    bodies = Bodies()

    assert await bodies.read({}, sent(b"ab", b"", b"c")) == b"abc"
    with pytest.raises(RefusedError, match="larger"):
        await bodies.read({"content-length": str(MOST_BODY_BYTES + 1)}, sent())
    with pytest.raises(RefusedError, match="larger"):
        await bodies.read({}, sent(*[b"x" * MOST_BODY_BYTES] * 2))
    with pytest.raises(RefusedError, match="not whole"):
        await bodies.read({}, sent())
    assert await bodies.read({}, sent(b"d")) == b"d"


async def test_large_bodies_that_come_at_once_are_not_all_kept() -> None:
    bodies = Bodies()

    async def nested(depth: int) -> None:
        async def receive() -> dict[str, Any]:
            if depth:
                await nested(depth - 1)
            return {"type": "http.disconnect"}

        first = [{"type": "http.request", "body": b"x" * MOST_BODY_BYTES, "more_body": True}]

        async def one_then_others() -> dict[str, Any]:
            return first.pop() if first else await receive()

        with pytest.raises(RefusedError, match=r"not whole|at once"):
            await bodies.read({}, one_then_others)

    await nested(5)
