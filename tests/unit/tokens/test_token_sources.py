"""Tokens to log in with: fetched by credentials, read from files, or signed by nobody."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from compat_tests.running.waiting import until
from kbroker.client.client_error import ClientError
from kbroker.client.connection_settings import connection_settings
from kbroker.sasl.login import Login, NoTokenError
from kbroker.sasl.oauthbearer import BearerLogin
from kbroker.tokens.token_request import IssuedToken, RefreshWindow, TokenRequest
from kbroker.tokens.token_sources import FetchedTokens, TokenPlace
from kbroker.tokens.web_fetch import WebPlace
from tests.fakes.tokens.issuer import Issuer, served

SECRET = "ann+secret/%"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
URL = "sasl.oauthbearer.token.endpoint.url"


def token_of(login: Login | None) -> BearerLogin:
    assert login is not None
    assert login.tokens is not None
    return login.tokens()


def login_of(given: Mapping[str, str]) -> Login:
    login = connection_settings({**LOGIN, **given}).login
    assert login is not None
    assert SECRET not in repr(login)
    return login


def test_a_token_is_fetched_with_the_words_of_each_family_of_clients() -> None:
    issuer = Issuer()
    jaas = f'{MODULE} clientId="ann" clientSecret="{SECRET}" scope="a b" extension_traceId="7";'
    java = {
        "sasl.jaas.config": jaas,
        "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
        "secured.OAuthBearerLoginCallbackHandler",
    }
    java_4 = {
        "sasl.oauthbearer.client.credentials.client.id": "ann",
        "sasl.oauthbearer.client.credentials.client.secret": SECRET,
        "sasl.oauthbearer.scope": "a b",
    }
    librdkafka = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "ann",
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.scope": "a b",
        "sasl.oauthbearer.extensions": "traceId=7",
    }
    with served(issuer) as url:
        logins = [login_of({**words, URL: f"{url}/t"}) for words in (java, java_4, librdkafka)]
        bearers = [token_of(login) for login in logins]
        kept = token_of(logins[0])

    assert [bearer.extensions for bearer in bearers] == [{"traceId": "7"}, {}, {"traceId": "7"}]
    assert kept == bearers[0]  # it is not fetched twice
    assert issuer.forms == [{"grant_type": ["client_credentials"], "scope": ["a b"]}] * 3
    assert [login.username for login in logins] == ["ann"] * 3


def test_credentials_are_written_as_the_rfc_has_them_if_wanted() -> None:
    plain, encoded = (
        TokenRequest(client_id="a:b", client_secret="c d/", is_encoded=each).headers()
        for each in (False, True)
    )

    assert plain["Authorization"] == "Basic YTpiOmMgZC8="
    assert encoded["Authorization"] == "Basic YSUzQWI6YytkJTJG"


def test_the_next_token_is_fetched_while_the_old_one_still_holds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    issuer, now_ms = Issuer(), [0]
    waits: list[float] = []
    with served(issuer) as url:
        place = TokenPlace(
            place=WebPlace(url=url),
            request=TokenRequest(client_id="ann", client_secret=SECRET),
            window=lambda: RefreshWindow(jitter=0.0),
            backoff_max_ms=300,
        )
        tokens = FetchedTokens(place, lambda: now_ms[0], waits.append)
        issuer.lifetime_s = 1_000
        first = issuer.token(iat=0, exp=1_000)
        issuer.failing = (200, json.dumps({"access_token": first}).encode())
        assert tokens().token == first

        issuer.failing = (503, b"")
        now_ms[0] = 699_000  # the buffer of 300 s comes before 0.8 of its life
        assert tokens().token == first
        assert waits == []
        now_ms[0] = 700_000
        assert tokens().token == first  # while a thread asks
        until(lambda: caplog.messages)
        assert waits == [0.1, 0.2]
        assert "stays in use until it ends: there is no token from http://" in caplog.text
        asked = len(issuer.asked)
        assert tokens().token == first
        assert len(issuer.asked) == asked  # not at each login
        now_ms[0] = 1_000_000
        with pytest.raises(
            NoTokenError, match=r"no token from http://.*: it answers with status 503"
        ):
            tokens()
        issuer.failing = None
        now_ms[0] = time.time_ns() // 1_000_000
        second = tokens().token
        assert second != first
        now_ms[0] += 900_000
        issuer.lifetime_s = 2_000
        until(lambda: tokens().token != second)


@pytest.mark.parametrize(
    ("token", "opens_ms"),
    [
        (IssuedToken("", 0, 10_000_000), 8_250_000.0),
        (IssuedToken("", 0, 1_000_000), 700_000),
        (IssuedToken("", 0, 370_000), 70_000),
        (IssuedToken("", 0, 300_000), 247_500.0),  # too short for the rest
        (IssuedToken("", -3_000_000, 500_000), 60_000),
    ],
)
def test_a_token_is_renewed_when_kafka_would(token: IssuedToken, opens_ms: float) -> None:
    assert RefreshWindow().opens_ms(token, 0, 0.5) == pytest.approx(opens_ms)


BAD_ANSWERS = [
    (401, b'{"error": "invalid_client", "error_description": "\\u001b[0mno"}', "401 (invalid_client: [0mno)"),
    (400, b"<html>", "it answers with status 400"),
    (302, b"", "it answers with status 302"),
    (200, b"[]", "its answer has no access_token"),
    (200, b'{"access_token": " "}', "its answer has no access_token"),
    (200, b'{"access_token": 7}', "its answer has no access_token"),
    (200, b'{"access_token": "opaque"}', "it is not a JSON web token of three parts"),
    (200, b'{"access_token": "e30.e30."}', "it does not say when it ends"),
    (200, b"[" * 100_000, "its answer has no access_token"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "content", "reason"), BAD_ANSWERS)
def test_an_answer_without_a_token_is_an_error_at_once(
    status: int, content: bytes, reason: str
) -> None:
    issuer = Issuer()
    issuer.failing = (status, content)
    with served(issuer) as url:
        credentials = f'{MODULE} clientId="ann" clientSecret="{SECRET}";'
        login = login_of({URL: url, "sasl.jaas.config": credentials})
        with pytest.raises(NoTokenError) as caught:
            token_of(login)

    assert reason in str(caught.value)
    assert SECRET not in str(caught.value)
    assert len(issuer.asked) == 1


def test_a_token_is_read_from_a_file_and_again_when_it_is_old(tmp_path: Path) -> None:
    issuer, file = Issuer(), tmp_path / "token"
    login = login_of({URL: file.as_uri()})
    with pytest.raises(NoTokenError, match="No such file"):
        token_of(login)
    issuer.lifetime_s = 0
    for user in ("ann", "bob"):
        token = issuer.token(user)
        file.write_text(f"{token}\n")
        assert token_of(login).token == token


def test_a_token_is_renewed_though_there_was_no_thread_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    issuer, file, now_ms = Issuer(), tmp_path / "token", [0]
    file.write_text(issuer.token(iat=0, exp=1_000))
    tokens = FetchedTokens(
        TokenPlace(place=WebPlace(url=file.as_uri()), request=None), lambda: now_ms[0]
    )
    first = tokens()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        now_ms[0] = 990_000
        assert tokens() == first

    file.write_text(second := issuer.token(iat=1_000, exp=2_000))
    now_ms[0] = 1_000_000
    assert tokens().token == second


def test_a_token_that_nobody_signs_says_what_its_options_say() -> None:
    options = (
        'unsecuredLoginStringClaim_sub="ann" unsecuredLoginListClaim_scope="|a|b" '
        'unsecuredLoginNumberClaim_level="7" unsecuredLoginLifetimeSeconds="60"'
    )
    header, claims, signature = token_of(
        login_of({"sasl.jaas.config": f"{MODULE} {options};"})
    ).token.split(".")

    assert (header, signature) == ("eyJhbGciOiAibm9uZSJ9", "")
    said = json.loads(base64.urlsafe_b64decode(claims + "=="))
    assert (said["sub"], said["scope"], said["level"]) == ("ann", ["a", "b"], 7)
    assert said["exp"] - said["iat"] == 60


CREDENTIALS = {"sasl.oauthbearer.client.id": "ann", "sasl.oauthbearer.client.secret": SECRET}
REFUSED = [
    ({}, "sasl.jaas.config of OAUTHBEARER: it has no token to log in with: set " + URL),
    ({"sasl.jaas.config": "x"}, "sasl.jaas.config cannot be read"),
    ({"sasl.jaas.config": "a.PlainLoginModule required;"}, "it is not one of OAUTHBEARER"),
    ({"sasl.jaas.config": f"{MODULE} unsecuredLoginX=1;"}, "there is no user: add unsecuredLogin"),
    (
        {"sasl.jaas.config": f"{MODULE} unsecuredLoginStringClaim_sub=a unsecuredLoginNumberClaim_x=y;"},
        "unsecuredLoginNumberClaim_x is not a number",
    ),
    ({URL: "https://issuer"}, 'add clientId="ID" clientSecret="SECRET"'),
    ({URL: "http://issuer"}, "could change what comes over http: write https://"),
    ({URL: "https://i", "sasl.login.callback.handler.class": "a.B"}, "classes of Java are not run"),
    ({**CREDENTIALS, URL: "https://i", "sasl.login.retry.backoff.ms": "x"}, "Not a number of type LONG"),
    ({URL: "https://i", "https.ca.location": "/nowhere"}, "/nowhere cannot be used: No such file"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "sentence"), REFUSED, ids=[each[1][:40] for each in REFUSED])
def test_properties_that_give_no_token_are_refused(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(ClientError) as caught:
        connection_settings({**LOGIN, **given})

    assert sentence in caught.value.sentence
