"""The console in a browser, of kbroker and of Apache Kafka: by keyboard alone, on narrow and wide
screens, in light and dark, and while its broker is away.

`KBROKER_REWRITE=1` takes the pictures of the docs again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from compat_tests.running.apache_kafka import free_port
from compat_tests.running.chromium import ENTER, ESCAPE, TAB, Chromium, chromium, foreign
from compat_tests.running.prerequisites import NotAvailableError
from tests.fakes.running.forked_broker import Broker
from tests.integration.console.consoled_clusters import (
    ConsoledCluster,
    apache,
    fill,
    hostile_things,
    kbroker,
)
from tests.integration.console.walked_pages import pages

# Widths and whether it is dark. Pages have the first two and the last two in turn: what does not
# fit depends on the width, a weak contrast on the colours. Those that are seen most have all four.
LOOKS = ((360, False), (1440, True), (360, True), (1440, False))
SEEN_MOST = ("/overview", "/topics", "/topics/orders", "/topics/orders/messages", "/groups/readers")
SHOWN_IN_DOCS = (
    ("console-topics", "/topics", 1440, True),
    ("console-topic", "/topics/orders", 360, False),
    ("console-messages", "/topics/orders/messages?json=%24.price+%3E%3D+10", 1440, False),
    ("console-group", "/groups/readers", 1440, True),
)
DOCS = Path(__file__).parents[3] / "docs"
GAPS = "notice gaps", "not known here"  # what a page that lacks something has
COUNT_FETCHES = """
const own = window.fetch;
window.asked = window.underway = 0;
window.fetch = (...args) => {
  window.asked++;
  window.underway++;
  return own(...args).finally(() => window.underway--);
};
"""

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    try:
        with chromium() as found:
            yield found
    except NotAvailableError as error:
        pytest.skip(str(error))


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(kbroker, id="kbroker"),
        pytest.param(apache, id="apache", marks=[pytest.mark.java]),
    ],
)
def cluster(request: pytest.FixtureRequest) -> Iterator[ConsoledCluster]:
    """A cluster with a console, of which each test leaves nothing but what it says."""
    with request.param() as made:
        yield made


def tab_to(browser: Chromium, control: str) -> None:
    """Go from one control to the next until one has this text, or this id."""
    for _ in range(60):
        browser.type(TAB)
        at = browser.script("const at = document.activeElement; return [at.innerText, at.id]")
        if control in at:
            return
    raise AssertionError(f"there is no control {control!r}")


def heading(text: str) -> str:
    return f'document.querySelector("h1").innerText == "{text}"'


def done(beginning: str) -> str:
    return f'document.querySelector(".done")?.innerText.startsWith("{beginning}")'


def test_everything_is_done_by_keyboard_alone(browser: Chromium, cluster: ConsoledCluster) -> None:
    browser.go("about:blank")
    browser.messages()  # of tests before
    browser.look(1440, is_dark=False)
    browser.go(f"{cluster.url}/")
    browser.until('location.pathname == "/overview"')

    make_a_topic_and_produce(browser)
    find_it(browser, cluster)
    follow_the_tail(browser, cluster)
    reset_and_delete_a_group(browser, cluster)

    browser.type("gt")
    browser.until(heading("Topics"))
    tab_to(browser, "orders")
    browser.type(ENTER)
    browser.until('location.pathname == "/topics/orders"')
    tab_to(browser, "Delete")
    browser.type(ENTER)
    browser.until('location.pathname == "/topics/orders/delete" && document.activeElement.id')
    tab_to(browser, "Delete")
    browser.type(TAB, "orders", ENTER)
    browser.until(done("orders: deleted"))
    assert browser.messages() == []


def make_a_topic_and_produce(browser: Chromium) -> None:
    browser.type("gt")
    browser.until(heading("Topics"))
    browser.type(TAB, ENTER)
    browser.until('location.pathname == "/new-topic" && document.activeElement.id == "main"')
    browser.type(TAB, "orders", TAB, "1", ENTER)
    browser.until(done("orders: created"))
    assert browser.script("return location.pathname + location.search") == "/topics/orders"

    tab_to(browser, "Produce")
    browser.type(ENTER)
    browser.until('location.pathname == "/topics/orders/produce"')
    tab_to(browser, "f-value")
    browser.type('{"price": 12}')
    tab_to(browser, "Produce the message")
    browser.type(ENTER)
    browser.until(done("written: orders"))


def find_it(browser: Chromium, cluster: ConsoledCluster) -> None:
    cluster.produce('{"price": 7}')
    tab_to(browser, "Messages")
    browser.type(ENTER)
    browser.until("document.querySelectorAll('tbody tr').length == 2")
    browser.type("/", "12", ENTER)
    browser.until("document.querySelectorAll('tbody tr').length == 1")
    found = browser.script("return [location.href, main.innerText]")
    assert "price" in found[1]
    assert "1 other does not fit" in found[1]

    browser.type("gt")
    browser.until(heading("Topics"))
    browser.type("/", "ORD")
    browser.until(
        'location.search == "?q=ORD" && document.querySelectorAll("tbody tr").length == 1'
    )
    assert browser.script("return document.activeElement.id") == "q"
    browser.type(ESCAPE, "?")
    browser.until('document.getElementById("keys").open')
    browser.type(ESCAPE)
    browser.script("history.back()")
    browser.until(heading("orders"))
    assert browser.script("return [location.href, main.innerText]") == found
    browser.script("history.forward()")
    browser.until('document.getElementById("q")?.value == "ORD"')
    browser.go("about:blank")
    browser.go(found[0])
    assert browser.script("return [location.href, main.innerText]") == found


def follow_the_tail(browser: Chromium, cluster: ConsoledCluster) -> None:
    tab_to(browser, "Live tail")
    browser.type(ENTER)
    browser.until(
        'location.pathname == "/topics/orders/tail" && document.activeElement.id == "main"'
    )
    rows = 'document.getElementById("tail").rows'
    browser.until(f"{rows}.length == 2")
    browser.script(COUNT_FETCHES)
    cluster.produce("while it runs")
    browser.until(f'{rows}[0].innerText.includes("while it runs")')

    tab_to(browser, "Pause")
    browser.type(ENTER)
    state = 'document.getElementById("tail-state").innerText'
    browser.until(f'{state} == "1 came, 0 skipped, paused" && underway == 0')
    asked = browser.script("return asked")
    cluster.produce("while it rests")
    assert browser.script(f"return [{rows}.length, asked]") == [3, asked]
    browser.type("p")
    browser.until(f'{rows}[0].innerText.includes("while it rests")')
    assert browser.script(f"return {state}") == "2 came, 0 skipped"


def reset_and_delete_a_group(browser: Chromium, cluster: ConsoledCluster) -> None:
    cluster.make_group("readers")
    browser.type("gg")
    browser.until(heading("Groups"))
    tab_to(browser, "readers")
    browser.type(ENTER)
    browser.until('location.pathname == "/groups/readers"')
    tab_to(browser, "Reset offsets")
    browser.type(ENTER)
    browser.until('location.pathname == "/groups/readers/reset"')
    tab_to(browser, "f-to")
    browser.type("latest", ENTER)
    browser.until('document.querySelector("button.danger")')
    tab_to(browser, "Reset 1 partition")
    browser.type(ENTER)
    browser.until(done("readers: offsets of"))
    tab_to(browser, "Delete")
    browser.type(ENTER)
    browser.until('location.pathname == "/groups/readers/delete"')
    tab_to(browser, "Delete the group")
    browser.type(ENTER)
    browser.until(done("readers: deleted"))


def test_every_page_fits_its_screen_and_can_be_used_by_all(
    browser: Chromium, cluster: ConsoledCluster
) -> None:
    fill(cluster)
    if os.environ.get("KBROKER_REWRITE") and cluster.is_ours:
        take_pictures(browser, cluster)
    with hostile_things(cluster):
        browser.requested()
        visited = set()
        for number, path in enumerate(pages(cluster)):
            visited.add(path)
            looks = LOOKS if path in SEEN_MOST else (LOOKS[:2], LOOKS[2:])[number % 2]
            # Of another broker, those pages differ that say what is not known there.
            if cluster.is_ours or has_gaps(f"{cluster.url}{path}"):
                browser.go(f"{cluster.url}{path}")
                assert (path, page_problems(browser, looks)) == (path, [])
        assert browser.messages() == []
        assert foreign(browser.requested(), cluster.url) == []
        assert visited.issuperset(SEEN_MOST)
        browser.go(f"{cluster.url}/topics/none")
        assert page_problems(browser, LOOKS) == []


def has_gaps(url: str) -> bool:
    """Whether the page says that something is missing in it."""
    with urlopen(url) as answer:
        page = answer.read().decode()
    return any(each in page for each in GAPS)


def page_problems(browser: Chromium, looks: Iterable[tuple[int, bool]]) -> list[str]:
    """Return what is wrong with the page, on screens of these widths, in light or dark."""
    problems = []
    for width, is_dark in looks:
        browser.look(width, is_dark=is_dark)
        wide = browser.script("return document.documentElement.scrollWidth")
        if wide > width:
            problems.append(f"{wide} pixels wide on a screen of {width}")
        problems += browser.findings()
    return problems


def take_pictures(browser: Chromium, cluster: ConsoledCluster) -> None:
    for name, path, width, is_dark in SHOWN_IN_DOCS:
        browser.look(width, is_dark=is_dark)
        browser.go(f"{cluster.url}{path}")
        (DOCS / f"{name}.png").write_bytes(browser.screenshot())


def test_a_page_comes_back_by_itself_with_its_broker(browser: Chromium) -> None:
    http = f"127.0.0.1:{free_port()}"
    settings = {"kbroker.http.listeners": http}
    with Broker(settings=settings):
        browser.go(f"http://{http}/topics")
    browser.type("go")
    browser.until('!document.getElementById("away").hidden')
    with Broker(settings=settings):
        browser.until(heading("Overview"))
        assert browser.script('return document.getElementById("away").hidden')


def test_a_user_logs_in_and_out(browser: Chromium) -> None:
    http = f"127.0.0.1:{free_port()}"
    settings = {"kbroker.http.listeners": http}
    with Broker(tls=True, users={"ann": "ann-secret"}, settings=settings):
        for width, is_dark in LOOKS[:2]:
            browser.look(width, is_dark=is_dark)
            browser.go(f"https://{http}/topics?q=a+b")
            browser.until(heading("Log in"))
            assert browser.findings() == []
        browser.messages()
        browser.type("ann", TAB, "wrong", ENTER)
        browser.until('document.querySelector(".refused")?.innerText.includes("wrong password")')
        assert [each for each in browser.messages() if "401" not in each] == []
        browser.type("ann", TAB, "ann-secret", ENTER)
        browser.until('location.pathname + location.search == "/topics?q=a+b"')
        assert browser.findings() == []
        assert "ann" in browser.script('return document.querySelector("header .user").innerText')
        browser.type("go")
        browser.until('location.pathname == "/overview"')
        assert "session" not in browser.script("return document.cookie")
        # A link on another site brings no cookie along, and yet leads to the page.
        link = f"<a href='https://{http}/groups'>groups</a>"
        browser.go(f"data:text/html,{quote(link)}")
        browser.script('document.querySelector("a").click()')
        browser.until(heading("Groups"))
        tab_to(browser, "Log out")
        browser.type(ENTER)
        browser.until(heading("Log in"))
        browser.go(f"https://{http}/overview")
        browser.until(heading("Log in"))
        assert browser.messages() == []
