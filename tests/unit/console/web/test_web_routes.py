from __future__ import annotations

import pytest

from kbroker.console.web.console import Console
from kbroker.console.web.routes import WebRoute, WebRoutes
from kbroker.console.web.web_request import WebRequest
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
