"""Who logs in over HTTP: cookies, forms, passwords, and how many of them come at once."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, MutableMapping
from typing import Any
from urllib.parse import urlencode

import pytest

from kbroker.http.answers import Answer, Receive, Send, said
from kbroker.http.rights import Rights
from kbroker.http.sessions import Session
from kbroker.http.users import (
    CHECKED_MOST,
    CHECKED_OF_ONE_MOST,
    WAITING_MOST,
    Users,
    Verdict,
    basic_user,
)
from kbroker.sasl.login import Login
from tests.fakes.running.waiting import until


class Pages:
    """Pages that nobody looks at here."""

    def __init__(self, login: Login, principal: str) -> None:
        self.principal = principal
        self.login = login

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


def no_rights(_principal: str, _host: str) -> Rights:
    raise NotImplementedError


class Door:
    """Users of whom ann has the password secret; checks wait until `go` is set."""

    def __init__(self, wait_ms: float = 0.0) -> None:
        self.go = asyncio.Event()
        self.go.set()
        self.checks = 0
        self._wait_ms = wait_ms
        self.users = Users(Pages, self._check, lambda: 0, self._page, no_rights)

    async def _check(self, host: str | None, name: str, password: str) -> Verdict:
        self.checks += 1
        await self.go.wait()
        if (name, password) == ("ann", "secret"):
            return Verdict("PLAIN", principal="User:ann")
        return Verdict(None, self._wait_ms)

    @staticmethod
    def _page(_: Mapping[str, str], after: str, refused: str | None, status: int) -> Answer:
        return said(status, f"{after} {refused}")

    async def find(self, at: str = "10.0.0.1", **headers: str) -> Session | Answer | None:
        return await self.users.find(scope_of("/", host=at), headers)

    async def send(self, path: str, body: bytes = b"", **headers: str) -> Answer:
        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": body}

        found = await self.users.answer(scope_of(path, "POST"), headers, receive)
        assert found is not None
        return found


def scope_of(path: str, method: str = "GET", host: str = "10.0.0.1") -> dict[str, Any]:
    return {
        "scheme": "https", "client": (host, 1), "path": path, "raw_path": path.encode(),
        "query_string": b"", "method": method,
    }  # fmt: skip


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def login(password: str = "secret", after: str = "/topics") -> bytes:
    return urlencode({"user": "ann", "password": password, "next": after}).encode()


def header(answer: Answer, name: str) -> str:
    return dict(answer.headers).get(name, "")


async def test_requests_of_a_program_that_come_at_once_have_one_session() -> None:
    door = Door()
    door.go.clear()
    asked = [asyncio.ensure_future(door.find(authorization=basic("ann", "secret"))) for _ in "123"]
    await until(lambda: door.checks == 3)
    door.go.set()
    first, *others = await asyncio.gather(*asked)
    assert isinstance(first, Session)
    assert all(each is first for each in others)
    assert not first.ended.is_set()


async def test_a_program_is_checked_once_and_a_browser_by_its_own_port() -> None:
    door = Door()
    first = await door.find(authorization=basic("ann", "secret"))
    assert isinstance(first, Session)
    assert await door.find(authorization=basic("ann", "secret")) is first
    assert door.checks == 1
    assert await door.find(authorization="Basic ???") is None
    done = await door.send("/login", login(), host="localhost:8081")
    cookie = header(done, "set-cookie").partition(";")[0]
    assert cookie.startswith("__Host-kbroker_session_8081=")
    assert isinstance(await door.find(cookie=f"a=b; {cookie}", host="localhost:8081"), Session)
    # A broker at another port of the same host gets the same cookies, and has its own.
    assert await door.find(cookie=cookie, host="localhost:8080") is None
    assert await Door().find(cookie=cookie, host="localhost:8081") is None
    door.users.close()


@pytest.mark.parametrize(
    ("after", "led"),
    [
        ("/topics/a?q=%20b&page=2", "/topics/a?q=%20b&page=2"),
        ("//evil.example", "/overview"),
        ("/\\evil.example", "/overview"),
        ("https://evil.example", "/overview"),
        ("/a\r\nset-cookie: b", "/overview"),
        ("/a\tb", "/overview"),
        ("/\u00e4", "/%C3%A4"),
        ("", "/overview"),
    ],
)
async def test_a_login_leads_to_a_page_of_this_address_alone(after: str, led: str) -> None:
    door = Door()
    assert header(await door.send("/login", login(after=after)), "location") == led
    door.users.close()


async def test_a_browser_is_led_to_the_form_and_from_elsewhere_it_asks_again_first() -> None:
    door = Door()
    scope = {**scope_of("/topics"), "query_string": b"q=a%20b"}
    html = {"accept": "text/html"}
    led = door.users.ask(scope, html, "log in")
    assert (led.status, header(led, "location")) == (303, "/login?next=%2Ftopics%3Fq%3Da%2520b")
    again = door.users.ask(scope, html | {"sec-fetch-site": "cross-site"}, "log in")
    assert (again.status, header(again, "refresh")) == (200, "0;url=/topics?q=a%20b")
    # Without TLS, browsers say only where they come from.
    plain = html | {"host": "kafka1:8080"}
    by_link = door.users.ask(scope, plain | {"referer": "http://wiki.example/"}, "log in")
    assert header(by_link, "refresh") == "0;url=/topics?q=a%20b"
    from_here = plain | {"referer": "http://kafka1:8080/topics?q=a%20b"}
    assert door.users.ask(scope, from_here, "log in").status == 303
    assert door.users.ask(scope, {}, "log in").status == 401


async def test_a_login_that_is_too_large_or_wrong_begins_nothing() -> None:
    door = Door()
    assert (await door.send("/login", b"x" * 9000)).status == 413
    assert (await door.send("/login", b"a&" * 200)).status == 401
    refused = await door.send("/login", login("other"))
    assert (refused.status, header(refused, "set-cookie")) == (401, "")
    assert len(door.users.sessions) == 0


async def test_no_more_passwords_of_an_address_are_checked_at_once_than_a_few() -> None:
    door = Door()
    door.go.clear()
    wrong = [
        asyncio.ensure_future(door.find(authorization=basic("ann", str(number))))
        for number in range(CHECKED_OF_ONE_MOST)
    ]
    await asyncio.sleep(0)
    turned_away = await door.find(authorization=basic("ann", "secret"))
    assert isinstance(turned_away, Answer)
    assert turned_away.status == 429
    other = asyncio.ensure_future(door.find(at="10.0.0.2", authorization=basic("ann", "secret")))
    door.go.set()
    assert isinstance(await other, Session)
    answers = await asyncio.gather(*wrong)
    assert {each.status for each in answers if isinstance(each, Answer)} == {401}
    assert isinstance(await door.find(authorization=basic("ann", "secret")), Session)
    door.users.close()


async def test_a_few_addresses_with_many_passwords_keep_nobody_out() -> None:
    door = Door()
    door.go.clear()
    crowd = [
        asyncio.ensure_future(
            door.find(at=f"10.0.{network}.1", authorization=basic("ann", f"{network}-{number}"))
        )
        for network in range(CHECKED_MOST // CHECKED_OF_ONE_MOST)
        for number in range(CHECKED_OF_ONE_MOST)
    ]
    await until(lambda: door.checks == CHECKED_MOST)
    others = [
        asyncio.ensure_future(door.find(at=f"10.1.0.{n}", authorization=basic("ann", "secret")))
        for n in range(3)
    ]
    await until(lambda: door.checks == CHECKED_MOST + 3)
    door.go.set()
    assert all(isinstance(each, Session) for each in await asyncio.gather(*others))
    answers = [each for each in await asyncio.gather(*crowd) if isinstance(each, Answer)]
    assert sorted(each.status for each in answers)[-4:] == [401, 429, 429, 429]
    door.users.close()


async def test_when_too_many_answers_wait_the_oldest_is_given() -> None:
    door = Door(wait_ms=3_600_000)
    wrong = [
        asyncio.ensure_future(
            door.find(at=f"10.0.1.{number}", authorization=basic("ann", str(number)))
        )
        for number in range(WAITING_MOST + 1)
    ]
    refused = await wrong[0]
    assert isinstance(refused, Answer)
    assert refused.status == 401
    assert not any(each.done() for each in wrong[1:])
    for each in wrong[1:]:
        each.cancel()
    await asyncio.gather(*wrong[1:], return_exceptions=True)


def test_what_is_no_name_with_a_password_is_nobody() -> None:
    assert basic_user("Basic " + base64.b64encode(b"ann").decode()) is None
    assert basic_user("Basic " + base64.b64encode(b"\xff:a").decode()) is None
    assert basic_user("Bearer abc") is None
    assert basic_user("") is None
