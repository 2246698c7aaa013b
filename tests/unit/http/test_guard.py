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


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(
    ("mode", "destination", "is_refused"),
    [
        ("no-cors", "image", True),
        ("no-cors", "script", True),
        ("navigate", "iframe", True),
        ("navigate", "document", False),  # somebody follows a link
    ],
)
def test_what_a_page_elsewhere_has_fetched_is_refused_though_it_has_no_origin(
    site: str, mode: str, destination: str, is_refused: bool
) -> None:
    headers = {
        "host": "127.0.0.1:8080",
        "sec-fetch-site": site,
        "sec-fetch-mode": mode,
        "sec-fetch-dest": destination,
    }

    assert (GUARD.refusal(headers) is not None) is is_refused
    for own in ("same-origin", "none"):  # its own page, and an address that was typed
        assert GUARD.refusal({**headers, "sec-fetch-site": own}) is None


def test_a_token_comes_as_bearer_or_as_a_browsers_password() -> None:
    basic = base64.b64encode(b"anybody:geheim").decode()

    assert GUARD.knows({"authorization": "Bearer geheim"})
    assert GUARD.knows({"authorization": f"Basic {basic}"})


@pytest.mark.parametrize(
    "authorization",
    [
        "", "Bearer", "Bearer geheim2", "Basic geheim", "Basic /w==", "Digest geheim",
        "Basic \xe9", "Bearer geheim\xe9", "Bearer \ud800",
    ],
)  # fmt: skip
def test_any_other_token_is_wrong(authorization: str) -> None:
    assert not GUARD.knows({"authorization": authorization})


def test_a_token_may_have_any_letters() -> None:
    guard = Guard(token="geheim\xe9\u20ac")
    sent = "geheim\xe9\u20ac".encode()
    basic = base64.b64encode(b"anybody:" + sent).decode()

    assert guard.knows({"authorization": f"Bearer {sent.decode('latin-1')}"})
    assert guard.knows({"authorization": f"Basic {basic}"})
    assert not guard.knows({"authorization": "Bearer geheim"})


def test_without_a_token_everybody_is_known() -> None:
    assert Guard().knows({})
