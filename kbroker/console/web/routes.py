"""Routes of the console: from a method and a pattern to a screen, and how they are found."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from kbroker.console.web.console import Console, Entry
from kbroker.console.web.web_request import WebRequest, segments_of
from kbroker.http.answers import Answer

API_PATH: Final = "/api/v1"

Respond = Callable[[Console, WebRequest], Coroutine[Any, Any, Answer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebRoute:
    """The function that answers a method and a pattern such as `/topics/{topic}`; a name in braces
    stands for one part of a path. `shows_messages`: refused if no content may be shown. Whatever is
    not GET changes something, and is refused if nothing may be changed, as is a page that
    `asks_for_change`.
    """

    pattern: str
    respond: Respond
    method: str = "GET"
    shows_messages: bool = False
    asks_for_change: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """A subject of the console: the first parts of its paths, the modules that have routes for them
    (`ROUTES`), and its entry in the navigation, if it has one.
    """

    entry: Entry | None = None
    segments: tuple[str, ...]
    modules: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Routes of one path by method, and the parts of the path that they name."""

    methods: Mapping[str, WebRoute]
    places: Mapping[str, str]


class WebRoutes:
    """All routes, found by path. A part that is written out wins over one that has a name."""

    def __init__(self, routes: Iterable[WebRoute]) -> None:
        self._by_pattern: dict[tuple[str, ...], dict[str, WebRoute]] = {}
        for route in routes:
            pattern = tuple(route.pattern.split("/")[1:])
            methods = self._by_pattern.setdefault(pattern, {})
            assert route.method not in methods, f"{route.method} {route.pattern} is there twice"
            methods[route.method] = route

    def find(self, path: str) -> Found | None:
        """Return the routes of a path, as it was sent; None if there are none."""
        segments = segments_of(path)
        found: Found | None = None
        for pattern, methods in self._by_pattern.items():
            places = _places(pattern, segments)
            if places is not None and (found is None or len(places) < len(found.places)):
                found = Found(methods=methods, places=places)
        return found


def _places(pattern: tuple[str, ...], segments: tuple[str, ...]) -> dict[str, str] | None:
    if len(pattern) != len(segments):
        return None
    places = {}
    for expected, segment in zip(pattern, segments, strict=True):
        if expected.startswith("{"):
            if not segment:
                return None
            places[expected[1:-1]] = segment
        elif expected != segment:
            return None
    return places


class ScreenRoutes:
    """The routes of all screens; the modules of one are loaded when a path of it is asked for, so
    that the first page comes soon.
    """

    def __init__(self, screens: Iterable[Screen]) -> None:
        self._screens = {segment: each for each in screens for segment in each.segments}
        self._loaded: dict[Screen, WebRoutes] = {}

    def find(self, path: str) -> Found | None:
        """Return the routes of a path, as it was sent; None if there are none."""
        segments = segments_of(path)
        screen = self._screens.get(segments[0]) if segments else None
        if screen is None:
            return None
        if screen not in self._loaded:
            modules = map(importlib.import_module, screen.modules)
            self._loaded[screen] = WebRoutes(chain.from_iterable(each.ROUTES for each in modules))
        return self._loaded[screen].find(path)
