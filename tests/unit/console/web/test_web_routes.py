from __future__ import annotations

import importlib

import pytest

from kbroker.console.web.console import Console
from kbroker.console.web.routes import ScreenRoutes, WebRoute, WebRoutes
from kbroker.console.web.screens import SCREENS
from kbroker.console.web.web_request import WebRequest, segments_of
from kbroker.http.answers import Answer


async def nothing(_console: Console, _request: WebRequest) -> Answer:
    return Answer()


def routes(*patterns: str) -> WebRoutes:
    return WebRoutes([WebRoute(pattern=each, respond=nothing) for each in patterns])


def test_a_part_that_is_written_out_wins_over_one_with_a_name() -> None:
    known = routes("/topics", "/topics/{topic}", "/topics/{topic}/{part}", "/topics/{topic}/trim")

    found = known.find("/topics/a%2Fb/trim")

    assert found is not None
    assert found.places == {"topic": "a/b"}
    assert found.methods["GET"].pattern == "/topics/{topic}/trim"


@pytest.mark.parametrize("path", ["/", "", "/topics/", "/topic", "/topics/a/b/c", "topics/a"])
def test_other_paths_have_no_route(path: str) -> None:
    assert routes("/topics", "/topics/{topic}").find(path) is None


def test_the_same_route_is_not_there_twice() -> None:
    with pytest.raises(AssertionError, match="twice"):
        routes("/a", "/a")


def test_every_screen_has_routes_of_its_own_paths_alone() -> None:
    for screen in SCREENS:
        for name in screen.modules:
            patterns = [route.pattern for route in importlib.import_module(name).ROUTES]
            assert patterns
            assert {segments_of(each)[0] for each in patterns} <= {*screen.segments}
    entries = [screen.entry for screen in SCREENS if screen.entry is not None]
    assert len({entry.key for entry in entries}) == len(entries)
    known = ScreenRoutes(SCREENS)
    assert all(known.find(entry.path) for entry in entries)
    assert known.find("/elsewhere") is None
    assert known.find("/topics/a/b/c") is None
