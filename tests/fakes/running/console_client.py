"""A browser's part towards the console: requests to an ASGI application, without a socket."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode

from kbroker.http.answers import Application

FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer: its status, headers by name, and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def html(self) -> str:
        return self.body.decode()

    @property
    def text(self) -> str:
        """The words of a page, with single spaces between them."""
        without = re.sub(r"<[^>]*>", " ", self.html)
        return unescape(" ".join(without.split()))

    def links_of(self, name: str) -> list[str]:
        """The targets of links in the first element of this name."""
        (within,) = re.findall(rf"<{name}\b.*?</{name}>", self.html, re.DOTALL)[:1]
        return [unescape(each) for each in re.findall(r'<a\b[^>]* href="([^"]*)"', within)]

    def hidden_fields(self) -> dict[str, str]:
        """The fields that the form of a preview sends."""
        inputs = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', self.html)
        areas = re.findall(r'<textarea name="(\w+)" hidden>([^<]*)</textarea>', self.html)
        return {name: unescape(value) for name, value in [*inputs, *areas]}

    def has_inline_code(self) -> bool:
        """Whether a page holds code or style that its policy forbids."""
        return bool(re.search(r"<style|<script(?![^>]* src=)| style=| on\w+=", self.html))

    @property
    def value(self) -> Any:
        return json.loads(self.body)

    @property
    def location(self) -> str:
        return self.headers["location"]


class ConsoleClient:
    """Asks an application, with one request at a time."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def get(self, target: str, **headers: str) -> Answered:
        return await self.ask("GET", target, b"", **headers)

    async def post(self, target: str, fields: Mapping[str, str], **headers: str) -> Answered:
        body = urlencode(fields).encode()
        return await self.ask("POST", target, body, content_type=FORM, **headers)

    async def call(self, method: str, target: str, value: Any = None) -> Answered:
        body = b"" if value is None else json.dumps(value).encode()
        return await self.ask(method, target, body, content_type="application/json")

    async def followed(self, answer: Answered) -> Answered:
        """The page that an answer leads to."""
        assert answer.status == 303, answer.text
        return await self.get(answer.location)

    async def ask(self, method: str, target: str, body: bytes, **headers: str) -> Answered:
        path, _, query = target.partition("?")
        scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [
                (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
            ],
        }
        waiting = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[Any] = []

        async def receive() -> Any:
            if waiting:
                return waiting.pop()
            return await asyncio.get_running_loop().create_future()  # it stays

        async def send(message: Any) -> None:
            sent.append(message)

        await self.application(scope, receive, send)
        start, *pieces = sent
        found = {name.decode(): value.decode() for name, value in start["headers"]}
        body = b"".join(piece["body"] for piece in pieces)
        return Answered(status=start["status"], headers=found, body=body)


class HttpConsoleClient(ConsoleClient):
    """Asks the console that a broker serves at its HTTP address."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def ask(self, method: str, target: str, body: bytes, **headers: str) -> Answered:
        named = {name.replace("_", "-"): value for name, value in headers.items()}

        def ask() -> Answered:
            connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
            connection.request(method, target, body or None, named)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            read = Answered(status=answer.status, headers=found, body=answer.read())
            connection.close()
            return read

        return await asyncio.to_thread(ask)
