"""The console in a browser: by keyboard alone, on narrow and wide screens, in light and dark, and
while its broker is away.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from compat_tests.running import apache_kafka
from compat_tests.running.apache_kafka import free_port
from compat_tests.running.chromium import ENTER, ESCAPE, TAB, Chromium, chromium, foreign
from compat_tests.running.forked_kbroker import ForkedKbroker
from compat_tests.running.prerequisites import NotAvailableError, require_program
from kbroker.console.web.screens import SCREENS
from kbroker.testing import Broker

ENTRIES = [screen.entry for screen in SCREENS if screen.entry is not None]
PAGES = [entry.path for entry in ENTRIES] + [
    "/new-topic",
    "/topics/orders",
    "/topics/orders/messages",
    "/topics/orders/messages/0/0",
    "/topics/orders/tail",
    "/topics/orders/produce",
    "/topics/orders/settings?all=1&name=retention.ms",
    "/topics/orders/groups",
    "/topics/orders/history",
    "/topics/orders/grow",
    "/topics/orders/trim?before=end",
    "/topics/orders/delete",
    "/brokers/0",
    "/topics/orders/producers",
    "/topics/orders/charts",
    "/groups/readers",
    "/groups/readers/members",
    "/groups/readers/charts",
    "/groups/readers/history",
    "/groups/readers/reset?to=latest",
    "/groups/readers/delete",
    "/hanging-transactions",
]
LOOKS = ((360, False), (1440, True))
SHOWN_IN_DOCS = {("/topics", 1440): "console-topics", ("/topics/orders", 360): "console-topic"}
DOCS = Path(__file__).parents[3] / "docs"

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    try:
        with chromium() as found:
            yield found
    except NotAvailableError as error:
        pytest.skip(str(error))


@pytest.fixture(params=["kbroker", pytest.param("apache", marks=[pytest.mark.java])])
def console(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a console of a cluster without topics."""
    if request.param == "kbroker":
        http = f"127.0.0.1:{free_port()}"
        with Broker(settings={"kbroker.http.listeners": http}):
            yield f"http://{http}"
        return
    require_program("java", "install a Java runtime")
    with apache_kafka.broker() as (address, _):
        command = ("console", "--bootstrap", address, "--listen", "127.0.0.1:0")
        with ForkedKbroker(*command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            yield process.stdout.readline().removeprefix("console at ").strip().rstrip("/")
            process.terminate()


def tab_to(browser: Chromium, control: str) -> None:
    """Go from one control to the next until one has this text, or this id."""
    for _ in range(60):
        browser.type(TAB)
        at = browser.script("const at = document.activeElement; return [at.innerText, at.id]")
        if control in at:
            return
    raise AssertionError(f"there is no control {control!r}")


def make_topic(base: str, name: str) -> None:
    call(base, "topics", {"name": name, "partitions": 3})


def make_group(base: str, name: str) -> None:
    body = {"to": "earliest", "topics": {"orders": []}, "confirmed": True}
    call(base, f"groups/{name}/reset", body)


def call(base: str, path: str, value: Any) -> None:
    headers = {"content-type": "application/json"}
    body = json.dumps(value).encode()
    with urlopen(Request(f"{base}/api/v1/{path}", body, headers)) as answer:
        assert answer.status == 200


def test_a_topic_is_made_filled_found_and_deleted_by_keyboard_alone(
    browser: Chromium, console: str
) -> None:
    browser.go("about:blank")
    browser.messages()  # of tests before
    browser.look(1440, is_dark=False)
    browser.go(f"{console}/")
    browser.until('location.pathname == "/overview"')
    browser.type("gt")
    browser.until('document.querySelector("h1").innerText == "Topics"')
    browser.type(TAB, ENTER)
    browser.until('location.pathname == "/new-topic" && document.activeElement.id == "main"')
    browser.type(TAB, "orders", TAB, "3", ENTER)
    browser.until('document.querySelector(".done")?.innerText == "orders: created"')
    assert browser.script("return location.pathname + location.search") == "/topics/orders"

    tab_to(browser, "Produce")
    browser.type(ENTER)
    browser.until('location.pathname == "/topics/orders/produce"')
    tab_to(browser, "f-value")
    browser.type('{"price": 12}')
    tab_to(browser, "Produce the message")
    browser.type(ENTER)
    browser.until('document.querySelector(".done")?.innerText.startsWith("written: orders")')
    tab_to(browser, "Messages")
    browser.type(ENTER)
    browser.until('document.querySelector("table")?.innerText.includes("price")')

    browser.type("gt")
    browser.until('document.querySelector("h1").innerText == "Topics"')
    browser.type("/", "ORD")
    browser.until(
        'location.search == "?q=ORD" && document.querySelectorAll("tbody tr").length == 1'
    )
    assert browser.script("return document.activeElement.id") == "q"
    browser.type(ESCAPE, "?")
    browser.until('document.getElementById("keys").open')
    browser.type(ESCAPE)
    browser.script("history.back()")
    browser.until('location.pathname == "/topics/orders/messages"')
    browser.script("history.forward()")
    browser.until('document.getElementById("q")?.value == "ORD"')

    reset_and_delete_a_group(browser, console)

    browser.type("gt")
    browser.until('document.querySelector("h1").innerText == "Topics"')
    tab_to(browser, "orders")
    browser.type(ENTER)
    browser.until('location.pathname == "/topics/orders"')
    tab_to(browser, "Delete")
    browser.type(ENTER)
    browser.until('location.pathname == "/topics/orders/delete" && document.activeElement.id')
    tab_to(browser, "Delete")
    browser.type(TAB, "orders", ENTER)
    browser.until('document.querySelector(".done")?.innerText == "orders: deleted"')
    assert browser.messages() == []


def reset_and_delete_a_group(browser: Chromium, console: str) -> None:
    make_group(console, "readers")
    browser.type("gg")
    browser.until('document.querySelector("h1").innerText == "Groups"')
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
    browser.until('document.querySelector(".done")?.innerText.startsWith("readers: offsets of")')
    tab_to(browser, "Delete")
    browser.type(ENTER)
    browser.until('location.pathname == "/groups/readers/delete"')
    tab_to(browser, "Delete the group")
    browser.type(ENTER)
    browser.until('document.querySelector(".done")?.innerText == "readers: deleted"')


def test_every_page_fits_its_screen_and_can_be_used_by_all(browser: Chromium) -> None:
    http = f"127.0.0.1:{free_port()}"
    base = f"http://{http}"
    with Broker(settings={"kbroker.http.listeners": http}):
        for name in ("orders", "a-topic-with-a-very-long-name." + "and-so-on." * 15):
            make_topic(base, name)
        make_group(base, "readers")
        value = "<b>&amp;" + "x" * 500 + "\x1b[31m"
        fields = {"value": value, "value_form": "text", "key_form": "null", "partition": "0"}
        with urlopen(f"{base}/topics/orders/produce", urlencode(fields).encode()) as answer:
            assert answer.url.startswith(f"{base}/topics/orders/messages/0/0")
        browser.requested()
        for width, is_dark in LOOKS:
            browser.look(width, is_dark=is_dark)
            for path in PAGES:
                browser.go(f"{base}{path}")
                wide = browser.script("return document.documentElement.scrollWidth")
                assert (wide, path) <= (width, path)
                assert (browser.findings(), path) == ([], path)
                if os.environ.get("KBROKER_REWRITE") and (path, width) in SHOWN_IN_DOCS:
                    shown = DOCS / f"{SHOWN_IN_DOCS[path, width]}.png"
                    shown.write_bytes(browser.screenshot())
        assert browser.messages() == []
        assert foreign(browser.requested(), base) == []

    browser.type("go")
    browser.until('!document.getElementById("away").hidden')
    with Broker(settings={"kbroker.http.listeners": http}):
        browser.until('document.querySelector("h1").innerText == "Overview"')
        assert browser.script('return document.getElementById("away").hidden')
