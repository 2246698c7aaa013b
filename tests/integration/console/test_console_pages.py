"""The console over a real broker: its pages, its JSON API, and what it refuses."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from typing import Any

import pytest

from kbroker.console.consoled_cluster import ConsoledCluster
from kbroker.console.web.app import ConsoleApplication
from kbroker.console.web.console import ConsoleOptions
from tests.fakes.running.console_client import FORM, ConsoleClient
from tests.fakes.running.forked_broker import Broker
from tests.fakes.running.waiting import until


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as made:
        yield made.bootstrap


@pytest.fixture
async def client(bootstrap: str) -> AsyncIterator[ConsoleClient]:
    with closing(ConsoleApplication(ConsoledCluster(bootstrap))) as made:
        yield ConsoleClient(made)


async def test_every_entry_of_the_navigation_leads_to_a_page(client: ConsoleClient) -> None:
    first = await client.get("/overview")
    for part in ("Overview", "Brokers 1", "Controller", "Without a leader: none"):
        assert part in first.text
    assert 'aria-current="page"' in first.html
    policy = first.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy

    for path in first.links_of("nav"):
        shown = await client.get(path)
        assert shown.status == 200, path
        assert not shown.has_inline_code(), path


async def test_what_is_not_there_or_not_asked_rightly_is_refused_in_words(
    client: ConsoleClient,
) -> None:
    for path, status, words in (
        ("/nowhere", 404, "there is no such page"),
        ("/topics/nowhere", 404, "no such topic: nowhere"),
        ("/brokers/77", 404, "no such broker: 77"),
        ("/topics?page=x", 400, "page is a number"),
        ("/static/app.py", 404, "there is no such file"),
    ):
        found = await client.get(path)
        assert (found.status, words in found.text) == (status, True), found.text
    for path in ("/api/v1", "/api/v1/topic"):
        missing = await client.get(path)
        assert (missing.status, missing.value["error"][:12]) == (404, "no such path")
    assert (await client.post("/overview", {})).status == 405
    hostile = await client.get("/topics?q=%3Cscript%3Ealert(1)%3C/script%3E%1b%5B31m")
    assert "<script>alert" not in hostile.html
    assert "\x1b" not in hostile.html


async def test_settings_of_a_broker_are_changed_by_forms_and_by_programs(
    client: ConsoleClient,
) -> None:
    place, name = "/brokers/0", "log.cleaner.backoff.ms"
    shown = await client.get(f"{place}?all=1&name={name}")
    assert f"{place}?name={name}&amp;all=1" in shown.html
    assert "name=broker.id" not in shown.html  # a running broker takes no other
    assert 'value="15000"' in shown.html
    change = {"name": name, "value": "14000", "action": "set"}
    changed = await client.post(f"{place}/settings", change)
    shown = await client.followed(changed)
    assert f"broker 0: {name} altered" in shown.text
    assert f"{name} 14000 broker (dynamic) default: 15000" in shown.text
    wrong = await client.post(f"{place}/settings", change | {"value": "soon"})
    assert (wrong.status, name in wrong.text, 'value="soon"' in wrong.html) == (409, True, True)
    assert (await client.post(f"{place}/settings", {"name": ""})).status == 409
    secret = {"name": "ssl.key.password", "value": "hush", "action": "set"}
    assert "hush" not in (await client.post(f"{place}/settings", secret)).html

    body = {"deletes": [name]}
    assert (await client.call("POST", f"/api/v1{place}/settings", body)).status == 200
    body = {"sets": {name: "13000"}, "of_all_brokers": True}
    assert (await client.call("POST", f"/api/v1{place}/settings", body)).status == 200
    settings = (await client.get(f"/api/v1{place}")).value["settings"]
    (found,) = (each for each in settings if each["name"] == name)
    assert (found["value"], found["origin"]) == ("13000", "cluster (dynamic)")
    assert found["is_read_only"] is False
    reset = {"name": name, "action": "reset", "of_all": "1"}
    assert (
        "13000" not in (await client.followed(await client.post(f"{place}/settings", reset))).text
    )
    gone = await client.post("/brokers/77/settings", change)
    assert gone.status in (404, 409)


async def test_a_write_from_elsewhere_changes_nothing(client: ConsoleClient) -> None:
    from_elsewhere = await client.post("/new-topic", {"name": "a"}, sec_fetch_site="cross-site")
    assert (from_elsewhere.status, "elsewhere" in from_elsewhere.text) == (403, True)
    as_text = await client.ask("POST", "/new-topic", b"name=a", content_type="text/plain")
    assert as_text.status == 415
    as_form = await client.ask("POST", "/api/v1/topics", b"name=a", content_type=FORM)
    assert (as_form.status, as_form.value) == (
        415,
        {"error": "the content type is application/json"},
    )
    large = await client.ask("POST", "/new-topic", b"x" * 5_000_000, content_type=FORM)
    assert large.status == 413
    assert (await client.call("GET", "/api/v1/topics")).value["page"]["total"] == 0


async def test_a_read_only_console_changes_nothing_and_has_no_buttons(bootstrap: str) -> None:
    options = ConsoleOptions(read_only=True, no_messages=True)
    with closing(ConsoleApplication(ConsoledCluster(bootstrap), options)) as made:
        client = ConsoleClient(made)
        for refused in (
            await client.post("/new-topic", {"name": "a"}),
            await client.call("POST", "/api/v1/topics", {"name": "a"}),
            await client.post("/brokers/0/settings", {"name": "a", "value": "b"}),
            await client.call("DELETE", "/api/v1/topics/a"),
        ):
            assert refused.status == 403
        assert "--read-only" in refused.value["error"]
        shown = await client.get("/topics")
        assert "read-only" in shown.text
        assert "Create a topic" not in shown.text
        assert "Change a setting" not in (await client.get("/brokers/0?all=1")).text


async def test_a_broker_that_is_away_is_said_and_looked_for_again() -> None:
    with closing(ConsoleApplication(ConsoledCluster("127.0.0.1:1"))) as made:
        client = ConsoleClient(made)
        shown = await client.get("/topics")
        assert shown.status == 503
        assert "127.0.0.1:1" in shown.text
        assert "data-refresh" in shown.html
        assert (await client.get("/api/v1/topics")).status == 503


async def test_what_a_client_asked_for_that_has_gone_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster = ConsoledCluster(f"127.0.0.1:{silent.getsockname()[1]}")
        with closing(ConsoleApplication(cluster)) as made:
            sent = []
            messages = iter([{"type": "http.request"}, {"type": "http.disconnect"}])

            async def receive() -> Any:
                return next(messages)

            async def send(message: Any) -> None:
                sent.append(message)

            scope = {"method": "GET", "path": "/topics", "query_string": b"", "headers": []}
            await made(scope, receive, send)

    assert sent == []
    await until(lambda: not cluster.at_work)
