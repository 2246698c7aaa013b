"""The judge that the settings of a listener make, and the settings that make none."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from compat_tests.running.waiting import until
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError
from kbroker.sasl.exchange import Identity
from kbroker.sasl.oauthbearer import BearerLogin, TokenRefusal
from kbroker.server.system_clock import SystemClock
from kbroker.tokens.listener_judge import ListenerJudge, judge_of
from tests.fakes.tokens.issuer import AUDIENCE, NAME, Issuer, served

P = "listener.name.sasl_plaintext.oauthbearer."
SIGNED = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.expected.issuer": NAME,
    "sasl.oauthbearer.expected.audience": f"{AUDIENCE},other",
}
LISTENER = {name: SIGNED[name] for name in ("listeners", "sasl.enabled.mechanisms")}
UNSIGNED = {**LISTENER, "kbroker.oauthbearer.unsecured": "true"}
URL, HANDLER, JAAS = (
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.server.callback.handler.class",
    "sasl.jaas.config",
)
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
PACKAGE = "org.apache.kafka.common.security.oauthbearer."


def made(texts: dict[str, str]) -> ListenerJudge:
    return judge_of(KafkaConfig(texts), "SASL_PLAINTEXT", SystemClock())


def reason(made: ListenerJudge, token: str) -> str:
    verdict = made.judge(BearerLogin(token))
    return verdict.reason if isinstance(verdict, TokenRefusal) else verdict.name


def unsigned(**claims: Any) -> str:
    parts = [json.dumps(each).encode() for each in ({"alg": "none"}, {"exp": 2**40, **claims})]
    return ".".join(base64.urlsafe_b64encode(each).rstrip(b"=").decode() for each in parts) + "."


@pytest.mark.parametrize("handler", ["", f"{PACKAGE}", f"{PACKAGE}secured."])
def test_keys_from_a_file_make_a_judge_that_reads_it_again(tmp_path: Path, handler: str) -> None:
    issuer, file = Issuer(), tmp_path / "keys.json"
    file.write_bytes(issuer.key_set())
    handlers = {f"{P}{HANDLER}": f"{handler}OAuthBearerValidatorCallbackHandler"} if handler else {}
    judge = made({**SIGNED, f"{P}{URL}": file.as_uri(), **handlers})
    judge.start()
    try:
        assert not judge.takes_time
        assert reason(judge, issuer.token()) == "ann"
        assert "its audience" in reason(judge, issuer.token(aud="third"))
        assert "algorithm is 'none'" in reason(judge, unsigned(sub="ann"))
        issuer.change_key("second")
        file.write_bytes(issuer.key_set())
        until(lambda: reason(judge, issuer.token("bob")) == "bob")
    finally:
        judge.close()


def test_keys_from_a_server_that_is_away_are_there_once_it_is() -> None:
    issuer = Issuer()
    issuer.failing = (503, b"later")
    with served(issuer) as url:
        backoff = {"sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "1"}
        judge = made({**SIGNED, **backoff, URL: f"{url}/keys"})
        judge.start()
        try:
            assert "no key 'first'" in reason(judge, issuer.token())
            issuer.failing = None
            until(lambda: reason(judge, issuer.token()) == "ann")
        finally:
            judge.close()


def test_unsigned_tokens_are_taken_by_a_setting_of_their_own() -> None:
    options = (
        'unsecuredValidatorRequiredScope="a b" unsecuredValidatorPrincipalClaimName="user" '
        'unsecuredValidatorAllowableClockSkewMs="3000"'
    )
    judge = made({**UNSIGNED, f"{P}{JAAS}": f"{MODULE} {options};"}).judge
    now_s = SystemClock().now_ms() // 1000

    def of(**claims: Any) -> Identity | TokenRefusal:
        return judge(BearerLogin(unsigned(**claims)))

    assert of(user="ann", scope=["a", "b", "c"]) == Identity("ann", expires_at_ms=2**40 * 1000)
    assert of(user="ann", scope="a b", exp=now_s) == Identity(
        "ann", expires_at_ms=now_s * 1000 + 3000
    )
    refused = of(user="ann", scope="a")
    assert isinstance(refused, TokenRefusal)
    assert refused.as_json() == '{"status":"insufficient_scope", "scope":"a b"}'
    for claims in (
        {"sub": "ann"},
        {"user": "ann", "exp": now_s - 10},
        {"user": "ann", "exp": None},
    ):
        assert isinstance(of(**claims, scope="a b"), TokenRefusal)
    assert "it is signed" in reason(made(UNSIGNED), Issuer().token())


def test_a_judge_of_python_is_asked_where_it_may_take_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_judges.py").write_text(
        "from kbroker.sasl.exchange import Identity\n"
        "def judge(login):\n"
        "    if login.token == 'exit':\n"
        "        raise SystemExit\n"
        "    return Identity(login.token) if login.token != 'no' else 1 / 0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    judge = made({**SIGNED, f"{P}{HANDLER}": "my_judges:judge"})

    assert judge.takes_time
    assert judge.judge(BearerLogin("ann")) == Identity("ann")
    assert reason(judge, "no") == "the judge of tokens ended by ZeroDivisionError"
    assert reason(judge, "exit") == "the judge of tokens ended by SystemExit"
    nothing = made({**SIGNED, f"{P}{HANDLER}": "builtins:len"})
    assert "gave neither" in reason(nothing, "ann")


KEYS = {**SIGNED, URL: "https://keys"}
UNSECURED_CLASS = f"{PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
REFUSED = [
    (SIGNED, f"OAUTHBEARER takes no token without {URL}: set it to the address of the issuer's"),
    ({**KEYS, "sasl.oauthbearer.expected.issuer": ""}, "without sasl.oauthbearer.expected.issuer"),
    ({**KEYS, "sasl.oauthbearer.expected.audience": ""}, "without sasl.oauthbearer.expected.aud"),
    ({**SIGNED, "kbroker.oauthbearer.unsecured": "true"}, f"takes no token without {URL}"),
    ({**SIGNED, URL: "http://issuer/keys"}, "change what comes over http: write https://"),
    ({**SIGNED, URL: "ftp://issuer"}, "write https://HOST/PATH or file:///PATH"),
    ({**SIGNED, URL: "https://"}, "write https://HOST/PATH"),
    ({**SIGNED, URL: "https://h:x/"}, "it is not an address"),
    ({**SIGNED, URL: "file:keys.json"}, "write file:///PATH, with the whole path"),
    ({**SIGNED, URL: "file:///nowhere/keys"}, "file:///nowhere/keys cannot be used: No such file"),
    ({**SIGNED, URL: f"file://{__file__}"}, "cannot be used: it is not a set of JSON web keys"),
    ({**KEYS, "sasl.oauthbearer.jwks.endpoint.refresh.ms": "0"}, "it is at least 1"),
    ({**KEYS, "sasl.oauthbearer.clock.skew.seconds": "-1"}, "it is at least 0"),
    ({**KEYS, f"{P}{HANDLER}": "com.example.Mine"}, "classes of Java are not run here: give"),
    ({**KEYS, f"{P}{HANDLER}": "no_such:judge"}, "no_such cannot be imported"),
    ({**KEYS, f"{P}{HANDLER}": "json:no_such"}, "json has no no_such to call"),
    ({**KEYS, f"{P}{HANDLER}": UNSECURED_CLASS}, "kbroker.oauthbearer.unsecured=true says that"),
    ({**UNSIGNED, "listeners": "SASL_PLAINTEXT://0.0.0.0:0"}, "0.0.0.0:0 is open to others"),
    ({**UNSIGNED, f"{P}{JAAS}": f"{MODULE} unsecuredValidatorX=1;"}, "ValidatorX is not known"),
    ({**UNSIGNED, f"{P}{JAAS}": f"{MODULE} unsecuredValidatorAllowableClockSkewMs=x;"}, "milliseconds"),
    (
        {**KEYS, f"{P}{JAAS}": f"{MODULE} ssl.truststore.location=/a.jks;"},
        f"{P}{JAAS}: the option ssl.truststore.location of OAUTHBEARER is read as PEM only",
    ),
    (
        {**KEYS, f"{P}{JAAS}": f"{MODULE} ssl.truststore.location=/a ssl.truststore.type=PEM;"},
        "ssl.truststore.location=/a cannot be used: No such file",
    ),
    (
        {**KEYS, f"{P}{JAAS}": f"{MODULE} ssl.truststore.certificates=x;"},
        "ssl.truststore.certificates cannot be used: it has no -----BEGIN CERTIFICATE",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "sentence"), REFUSED, ids=[each[1][:40] for each in REFUSED])
def test_settings_that_would_take_wrong_tokens_or_none_are_refused(
    texts: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        made(texts)

    assert sentence in str(caught.value)


def test_what_is_missing_to_check_a_signature_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)

    with pytest.raises(ConfigError, match=r"^OAUTHBEARER at listener SASL_PLAINTEXT needs jwt"):
        made(KEYS)
