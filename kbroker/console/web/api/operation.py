"""Operations of the API, as they are declared: what is asked for, and what is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

from kbroker.console.web.console import Console
from kbroker.console.web.web_request import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A field of the query. `type`: str, int or bool."""

    name: str
    summary: str
    type: type = str
    default: str | int | bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The arguments of a call: parts of the path by name, the query, and the body, of the type that
    the operation declares.
    """

    places: Mapping[str, str]
    query: Fields
    body: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation. `path` stands below the path of the API, with names in braces; `answer` is the
    type of what the function returns, and `body` that of what is sent: a dataclass, read by
    `bodies.py`.
    """

    name: str
    path: str
    summary: str
    answer: Any
    function: Callable[[Console, Given], Awaitable[Any]]
    method: str = "GET"
    parameters: tuple[Parameter, ...] = ()
    body: type | None = None
    shows_messages: bool = False

    def __post_init__(self) -> None:
        """Check that the body can be read."""
        assert self.body is None or is_dataclass(self.body), self.name


PAGE_PARAMETERS = (
    Parameter(name="q", summary="Only rows whose names hold this text, whatever its case."),
    Parameter(name="page", summary="The page, from 1 on.", type=int, default=1),
    Parameter(name="rows", summary="Rows of a page, up to 500.", type=int, default=50),
)
