"""Who may ask over HTTP."""

from __future__ import annotations

import base64

import pytest

from kbroker.http.guard import Guard, names_of

GUARD = Guard(names=names_of(["Kafka.Example.", ""]), token="geheim")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8080", "localhost", "LOCALHOST:1", "10.1.2.3", "[::1]:8080", "[fe80::1]",
        "kafka.example:8080", "kafka.example.",
    ],
)  # fmt: skip
def test_an_address_localhost_and_listed_names_may_call(host: str) -> None:
    assert GUARD.refusal({"host": host}) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "kafka.example.evil",
        "localhost.evil",
        "127.0.0.1.evil",
        "[::1",
        ":80",
        "a@b",
    ],
)
def test_any_other_name_is_one_that_a_foreign_page_may_have_brought(host: str) -> None:
    refusal = GUARD.refusal({"host": host})

    assert refusal is not None
    assert refusal.status == 403
    assert host in refusal.reason


def test_a_client_older_than_names_in_requests_is_no_browser() -> None:
    assert GUARD.refusal({}) is None


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:81", "file://", "http://[", ""]
)
def test_a_page_of_another_origin_is_refused(origin: str) -> None:
    refusal = GUARD.refusal({"host": "127.0.0.1:8080", "origin": origin})

    assert refusal is not None
    assert refusal.status == 403


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_page_of_this_address_may_ask_also_through_a_proxy_with_tls(scheme: str) -> None:
    origin = f"{scheme}://127.0.0.1:8080"
    assert GUARD.refusal({"host": "127.0.0.1:8080", "origin": origin}) is None


def test_a_token_comes_as_bearer_or_as_a_browsers_password() -> None:
    basic = base64.b64encode(b"anybody:geheim").decode()

    assert GUARD.knows({"authorization": "Bearer geheim"})
    assert GUARD.knows({"authorization": f"Basic {basic}"})


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer geheim2", "Basic geheim", "Basic /w==", "Digest geheim"]
)
def test_any_other_token_is_wrong(authorization: str) -> None:
    assert not GUARD.knows({"authorization": authorization})


def test_without_a_token_everybody_is_known() -> None:
    assert Guard().knows({})
