"""Requests as screens and operations get them, and how their bodies are read.

Law: a body has a largest size, and so have all bodies together that are being read.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote, urlencode

from kbroker.http.answers import Receive, headers_of

MOST_BODY_BYTES: Final = 4 * 1024 * 1024  # a value of 1 MiB in a form may take three times as much
_MOST_BODIES_BYTES: Final = 16 * 1024 * 1024
_MOST_FIELDS: Final = 200
_MOST_PAGE: Final = 1_000_000_000


class RefusedError(Exception):
    """A request that cannot be answered: the status, and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a query or a form; of one that was sent several times, the last counts."""

    values: Mapping[str, list[str]] = field(default_factory=dict)

    def text(self, name: str, default: str = "") -> str:
        """The text of a field without spaces around it, or the default if it is empty."""
        return self.values.get(name, [""])[-1].strip() or default

    def exact(self, name: str) -> str:
        """The text of a field as it was sent, with the newlines of a browser as single ones."""
        return self.values.get(name, [""])[-1].replace("\r\n", "\n")

    def number(self, name: str, default: int) -> int:
        """A whole number from 0 on. Raises RefusedError for something else."""
        text = self.text(name)
        return _whole_number(name, text) if text else default

    def optional_number(self, name: str) -> int | None:
        """A whole number from 0 on, None if there is none. Raises RefusedError."""
        return self.number(name, 0) if self.text(name) else None

    def names(self, name: str) -> list[str]:
        """The names that a field lists, with commas or spaces between."""
        return self.text(name).replace(",", " ").split()

    def numbers(self, name: str) -> frozenset[int]:
        """The whole numbers that a field lists. Raises RefusedError for something else."""
        return frozenset(_whole_number(name, each) for each in self.names(name))

    def flag(self, name: str) -> bool:
        """Whether a box is ticked."""
        return self.text(name) not in ("", "0", "false")

    def page(self) -> int:
        """The number of a page of a list, from 1 on."""
        return max(min(self.number("page", 1), _MOST_PAGE), 1)


def _whole_number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 19:
        raise RefusedError(400, f"{name} is a number, and not {text[:100]!r}")
    return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebRequest:
    """A request that was let in. `path` is as it was sent, `places` has the parts of it that its
    route names, and `form` the fields of a form; `body` is what was sent.
    """

    method: str
    path: str
    query: Fields
    headers: Mapping[str, str]
    places: Mapping[str, str] = field(default_factory=dict)
    form: Fields = field(default_factory=Fields)
    body: bytes = b""

    def with_query(self, **changes: str | int | None) -> str:
        """The address of this page with other fields in its query; None leaves one out."""
        fields: dict[str, str | int] = {name: each[-1] for name, each in self.query.values.items()}
        for name, value in changes.items():
            if value is None:
                fields.pop(name, None)
            else:
                fields[name] = value
        query = urlencode(fields, errors="replace")
        return f"{self.path}?{query}" if query else self.path


def address(*segments: str | int, **query: str | int | None) -> str:
    """Return the address of a page, from parts of its path and fields of its query.

    >>> address("topics", "a/b", q="x y", page=None)
    '/topics/a%2Fb?q=x+y'
    """
    path = "".join(f"/{quote(str(each), safe='', errors='replace')}" for each in segments)
    fields = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(fields, errors='replace')}" if fields else path


def request_of(scope: MutableMapping[str, Any]) -> WebRequest:
    """Return a request without its body. Raises RefusedError for a query that cannot be read."""
    raw = scope.get("raw_path") or quote(scope["path"]).encode()
    return WebRequest(
        method="GET" if scope["method"] == "HEAD" else scope["method"],
        path=raw.decode("ascii", "replace"),
        query=fields_of(scope["query_string"]),
        headers=headers_of(scope),
    )


def segments_of(path: str) -> tuple[str, ...]:
    """Return the parts of a path between its slashes, decoded.

    >>> segments_of("/topics/a%2Fb")
    ('topics', 'a/b')
    """
    return tuple(unquote(each) for each in path.split("/")[1:])


def fields_of(text: bytes) -> Fields:
    """Return the fields of a query or a form. Raises RefusedError if there are too many."""
    try:
        found = parse_qs(
            text.decode("ascii", "replace"), keep_blank_values=True, max_num_fields=_MOST_FIELDS
        )
    except ValueError as error:
        raise RefusedError(400, "too many fields") from error
    return Fields(found)


class Bodies:
    """The bodies that are being read. Owned by the loop of the web server."""

    def __init__(self) -> None:
        self._taken_bytes = 0

    async def read(self, headers: Mapping[str, str], receive: Receive) -> bytes:
        """Return a body. Raises RefusedError if it is too large, or too many come at once."""
        given = headers.get("content-length", "0")
        if given.isdecimal() and int(given) > MOST_BODY_BYTES:
            raise RefusedError(413, f"the request is larger than {MOST_BODY_BYTES:,} bytes")
        pieces: list[bytes] = []
        taken = 0
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RefusedError(400, "the request is not whole")
                piece = message.get("body", b"")
                taken += len(piece)
                self._taken_bytes += len(piece)
                self._check(taken)
                pieces.append(piece)
                if not message.get("more_body", False):
                    return b"".join(pieces)
        finally:
            self._taken_bytes -= taken

    def _check(self, taken: int) -> None:
        if taken > MOST_BODY_BYTES:
            raise RefusedError(413, f"the request is larger than {MOST_BODY_BYTES:,} bytes")
        if self._taken_bytes > _MOST_BODIES_BYTES:
            raise RefusedError(503, "too many large requests at once: try again")
