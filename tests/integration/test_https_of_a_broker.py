"""The HTTP address of a broker with TLS and logins: who gets in, as whom, and for how long."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
from collections.abc import Callable
from http.client import HTTPConnection, HTTPSConnection, IncompleteRead
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner
from openapi_spec_validator import OpenAPIV31SpecValidator

from kbroker.acl.acl import CLUSTER, Acl, AclOperation, AclPattern, AclResourceType, Permission
from kbroker.cli.command_line import cli
from kbroker.config.kafka_config import KafkaConfig
from kbroker.sasl.scram_keys import SCRAM_MECHANISMS, ScramCredential
from kbroker.server.broker.kafka_server import KafkaServer
from kbroker.server.start.start_refusals import refusals_of
from kbroker.zk import zk_paths
from kbroker.zk.nodes.entity_configs import ZkEntityConfigs
from tests.fakes.certificates import OWN_NAMES, Authority

L = "listener.name.sasl_ssl."
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS = {
    "listeners": "SASL_SSL://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_SSL",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
    f"{L}plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_ann="ann:sécret";',
    "connection.failed.authentication.delay.ms": "1",
    "kbroker.first.user": "first:first-secret",
    "kbroker.http.listeners": "127.0.0.1:0",
    "kbroker.http.token": "scraper-token",
}
NAMES = (*OWN_NAMES, "DNS:broker.example")
FORM = {"content-type": "application/x-www-form-urlencoded"}
HTML = {"accept": "text/html,*/*"}


class Answered(NamedTuple):
    """An answer, with its headers in lower case."""

    status: int
    text: str
    headers: dict[str, str]


class Browser:
    """Asks one broker; keeps its cookie."""

    def __init__(self, port: int, authority: Path) -> None:
        self.port = port
        self.context = ssl.create_default_context(cafile=authority)
        self.cookie = ""

    def ask(self, path: str, form: dict[str, str] | None = None, /, **headers: str) -> Answered:
        connection = HTTPSConnection("127.0.0.1", self.port, timeout=30, context=self.context)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie:
            named["cookie"] = f"kbroker_theme=dark; {self.cookie}"
        body = None
        if form is not None:
            named = FORM | {"origin": f"https://127.0.0.1:{self.port}"} | named
            body = urlencode(form)
        connection.request("GET" if form is None else "POST", path, body, named)
        answer = connection.getresponse()
        found = Answered(
            answer.status,
            answer.read().decode(),
            {name.lower(): value for name, value in answer.getheaders()},
        )
        connection.close()
        if "set-cookie" in found.headers:
            self.cookie = found.headers["set-cookie"].partition(";")[0]
        return found

    def log_in(self, user: str, password: str, after: str = "/topics") -> Answered:
        return self.ask("/login", {"user": user, "password": password, "next": after})


def basic(user: str, password: str) -> dict[str, str]:
    given = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"authorization": f"Basic {given}"}


def say(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, words)
    return done.exit_code, done.output


def own_settings(server: KafkaServer, folder: Path) -> str:
    """A file with the settings of a broker, and the port that it has got."""
    config, (listener,) = server.parts.storage.config, server.end_points
    values = {**config.texts, "listeners": str(listener)}
    file = folder / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return str(file)


async def started(folder: Path, **values: str) -> tuple[KafkaServer, Authority]:
    authority = Authority(folder / "certificates")
    keys = authority.issue("broker", names=NAMES).settings()
    settings = {**SETTINGS, **keys, "log.dirs": str(folder / "data"), **values}
    server = KafkaServer(KafkaConfig.for_profile("dev", settings))
    await server.startup()
    return server, authority


def look_as_nobody(nobody: Browser) -> None:
    assert nobody.ask("/livez").status == 200
    assert nobody.ask("/readyz").status == 200
    assert nobody.ask("/livez", host="broker.example").status == 200  # as its certificate says
    for name in ("evil.example", "renewed.example"):
        assert nobody.ask("/livez", host=name).status == 403
    for path in ("/metrics", "/api/trace", "/api/v1/topics", "/", "/nowhere"):
        refused = nobody.ask(path)
        assert refused.status == 401, path
        assert refused.headers["www-authenticate"].startswith("Basic ")
    by_script = nobody.ask("/api/v1/topics", **{"sec-fetch-mode": "cors"})
    assert "www-authenticate" not in by_script.headers  # no window of the browser's
    led = nobody.ask("/topics?q=a%20b", **HTML)
    assert (led.status, led.headers["location"]) == (303, "/login?next=%2Ftopics%3Fq%3Da%2520b")
    page = nobody.ask(led.headers["location"], **HTML)
    assert page.status == 200
    assert 'value="/topics?q=a%20b"' in page.text
    assert nobody.ask("/static/console.css").status == 200
    assert nobody.ask("/static/console.js").status == 401
    plain = HTTPConnection("127.0.0.1", nobody.port, timeout=30)
    plain.request("GET", "/livez")
    assert b"https://" in plain.getresponse().read()
    plain.close()


def look_as_scraper(scraper: Browser) -> None:
    token = {"authorization": "Bearer scraper-token"}
    assert "brokerstate" in scraper.ask("/metrics", **token).text
    assert scraper.ask("/api/connections", **token).status == 200
    refused = scraper.ask("/api/v1/topics", **token)
    assert (refused.status, "token" in refused.text) == (401, True)


def look_as_ann(ann: Browser) -> None:
    refused = ann.log_in("ann", "wrong")
    unknown = ann.log_in("nobody", "wrong")
    assert refused.status == unknown.status == 401
    assert refused.text == unknown.text
    assert "no such user, or a wrong password" in refused.text
    assert not ann.cookie
    done = ann.log_in("ann", "ann:sécret")
    assert (done.status, done.headers["location"]) == (303, "/topics")
    kept = done.headers["set-cookie"]
    assert kept.startswith(f"__Host-kbroker_session_{ann.port}=")
    assert kept.endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
    topics = ann.ask("/topics", **HTML)
    assert topics.status == 200
    assert "Logged in as ann" in topics.text
    made = ann.ask("/new-topic", {"name": "orders"})
    assert (made.status, made.headers["location"].partition("?")[0]) == (303, "/topics/orders")
    assert "orders" in ann.ask("/api/v1/topics").text
    described = json.loads(ann.ask("/api/v1/openapi.json").text)
    OpenAPIV31SpecValidator(described).validate()
    assert described["components"]["securitySchemes"]["login"]["scheme"] == "basic"
    connections = json.loads(ann.ask("/api/connections").text)["connections"]
    assert {(each["principal"], each["client_id"]) for each in connections} == {
        ("User:ann", "kbroker-console")
    }
    assert ann.ask("/login?next=//evil.example").headers["location"] == "/overview"
    foreign = ann.ask("/logout", {}, origin="https://evil.example")
    assert foreign.status == 403
    cookie = ann.cookie
    out = ann.ask("/logout", {})
    assert (out.status, out.headers["location"]) == (303, "/login")
    ann.cookie = cookie
    assert ann.ask("/topics").status == 401


def look_with_commands(port: int, listener: int, authority: Path, folder: Path) -> None:
    """Ask as commands do: with the properties of a client, or as somebody without any."""
    file = folder / "ann.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={authority}\n"
        f'sasl.jaas.config={PLAIN_MODULE} required username="ann" password="ann:sécret";\n'
    )
    url, known = f"https://127.0.0.1:{port}", ("--command-config", str(file))

    assert say("health", "--url", url, *known) == (0, f"{url} is ready\n")
    code, said = say("health", "--url", url)
    assert (code, "signed by nobody trusted here" in said) == (1, True)
    code, said = say("health", "--url", f"http://127.0.0.1:{port}", *known)
    assert (code, "this address speaks https" in said) == (1, True)
    assert say("trace", "--url", url, "--seconds", "0", *known)[0] == 0
    code, said = say("trace", "--url", url, "-X", f"ssl.ca.location={authority}",
                     "-X", "security.protocol=SSL")  # fmt: skip
    assert (code, "log in as a user" in said) == (1, True)
    assert say("group", "describe", "g", "--events", "--url", url, *known)[0] == 0
    bootstrap = ("--bootstrap", f"127.0.0.1:{listener}")
    code, said = say("top", "--once", "--interval", "0.5", "--url", url, *bootstrap, *known)
    assert (code, "SASL_SSL" in said, "answered" in said) == (0, True, False)


async def test_users_come_in_with_their_rights_and_their_sessions_end_with_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server, authority = await started(tmp_path)
    port = server.http_end_points[0].port

    def browser() -> Browser:
        return Browser(port, authority.certificate)

    async def ask(look: Callable[..., Any], *given: Any) -> Any:
        return await asyncio.to_thread(look, *given)

    try:
        await ask(look_as_nobody, browser())
        await ask(look_as_scraper, browser())
        await ask(look_as_ann, browser())
        listener = server.end_points[0].port
        await ask(look_with_commands, port, listener, authority.certificate, tmp_path)
        # The check of the image asks without a login.
        asked = "wait", "--settings", own_settings(server, tmp_path), "--timeout", "5"
        assert await ask(say, *asked) == (0, "")
        assert "--command-config" in (await ask(say, *asked, "--topic", "orders"))[1]
        # A user of the cluster, in a browser, with a program, and following requests.
        first, program, again = browser(), browser(), browser()
        assert (await ask(first.log_in, "first", "first-secret")).status == 303
        known = basic("first", "first-secret")
        assert (await ask(lambda: program.ask("/api/v1/topics", **known))).status == 200
        wrong = basic("first", "other")
        assert (await ask(lambda: program.ask("/api/v1/topics", **wrong))).status == 401
        stream = HTTPSConnection("127.0.0.1", port, timeout=30, context=first.context)
        stream.request("GET", "/api/trace?api=Fetch", headers=known)
        followed = await ask(stream.getresponse)
        assert followed.status == 200
        # Another password ends both sessions, and what is followed, within a second.
        configs = ZkEntityConfigs(server.parts.storage.zk)
        mechanism = SCRAM_MECHANISMS["SCRAM-SHA-512"]
        other = ScramCredential.of_password(mechanism, "other", b"salt", 4096)
        changed = {mechanism.sasl_name: str(other)}
        await configs.update(zk_paths.USER_CONFIGS, "first", lambda _: changed)
        with pytest.raises(IncompleteRead):
            await ask(followed.read)
        stream.close()
        assert (await ask(first.ask, "/topics")).status == 401
        assert (await ask(lambda: program.ask("/api/v1/topics", **known))).status == 401
        assert (await ask(again.log_in, "first", "other")).status == 303
        # Another certificate, whose authority alone is trusted from now on.
        another = Authority(tmp_path / "certificates", "another")
        renewed = another.issue(
            "renewed", subject="/CN=broker", names=(*NAMES, "DNS:renewed.example")
        )
        Path(str(server.parts.storage.config.value("ssl.keystore.location"))).write_text(
            renewed.pem.read_text()
        )
        server.read_certificates_again()
        later = Browser(port, another.certificate)
        later.cookie = again.cookie
        assert (await ask(later.ask, "/topics")).status == 200
        assert (await ask(lambda: later.ask("/livez", host="renewed.example"))).status == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            await ask(again.ask, "/topics")
    finally:
        await server.shutdown()
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert "a login from 127.0.0.1 over HTTP is refused: no such user" in said
    assert not re.search("secret|sécret", said)


def test_an_address_for_other_machines_has_tls_and_logins_or_a_token(tmp_path: Path) -> None:
    keys = Authority(tmp_path).issue("broker").settings()
    logins = {each: SETTINGS[each] for each in SETTINGS if each.startswith(("sasl.", L))}
    outside = {"kbroker.http.listeners": "0.0.0.0:8443"}

    def refusals(protocol: str, **values: str) -> list[str]:
        listener = f"{protocol}://127.0.0.1:9092"
        config = KafkaConfig.for_profile(
            "dev",
            {
                "listeners": listener, "security.inter.broker.protocol": protocol, **keys,
                **logins, **outside, **values,
            },
        )  # fmt: skip
        return [str(each) for each in refusals_of(config)]

    assert refusals("SASL_SSL") == []
    for protocol in ("PLAINTEXT", "SSL"):
        (refusal,) = refusals(protocol)
        assert "set kbroker.http.token.file" in refusal
    plain = {
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": SETTINGS[
            f"{L}plain.sasl.jaas.config"
        ]
    }
    assert len(refusals("SASL_PLAINTEXT", **plain)) == 1
    assert refusals("SASL_PLAINTEXT", **plain, **{"kbroker.http.token": "t"}) == []


async def test_where_no_listener_takes_passwords_nobody_is_let_in_but_by_the_token(
    tmp_path: Path,
) -> None:
    trusting = Authority(tmp_path / "certificates")
    server, authority = await started(
        tmp_path,
        **{
            "listeners": "SSL://127.0.0.1:0",
            "security.inter.broker.protocol": "SSL",
            "ssl.client.auth": "required",
            **trusting.trust(),
        },
    )
    browser = Browser(server.http_end_points[0].port, authority.certificate)
    token = {"authorization": "Bearer scraper-token"}
    try:
        asked = "wait", "--settings", own_settings(server, tmp_path), "--timeout", "5"
        assert await asyncio.to_thread(say, *asked) == (0, "")
        assert (await asyncio.to_thread(browser.ask, "/overview")).status == 401
        said = await asyncio.to_thread(lambda: browser.ask("/topics", **token))
        assert "kbroker console --command-config" in said.text.replace("&#x27;", "'")
        assert (await asyncio.to_thread(lambda: browser.ask("/metrics", **token))).status == 200
    finally:
        await server.shutdown()


OWN_PAGES = (
    "/metrics",
    "/api/events",
    "/api/events?group=g",
    "/api/connections",
    "/api/trace",
    "/charts",
    "/connections",
    "/events",
    "/requests",
    "/topics/orders/history",
    "/groups/g/history",
    "/api/v1/connections",
    "/api/v1/events",
    "/api/v1/charts",
    "/api/v1/requests?wait_ms=0",
)
"""What only the broker knows of itself, there and in the console."""
MAY_LOOK = Acl("User:ann", "127.0.0.1", AclOperation.DESCRIBE, Permission.ALLOW)


async def test_what_the_broker_knows_of_itself_is_for_users_who_may_describe_the_cluster(
    tmp_path: Path,
) -> None:
    server, authority = await started(
        tmp_path,
        **{
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:first",
        },
    )
    port = server.http_end_points[0].port
    ann, first = (Browser(port, authority.certificate) for _ in range(2))
    cluster = AclPattern(*CLUSTER)
    authorizer = server.parts.authorizer
    assert authorizer is not None
    topics = AclPattern(AclResourceType.TOPIC, "*")
    await authorizer.change({topics: lambda _: (MAY_LOOK,)})

    async def ask(browser: Browser, path: str, **headers: str) -> Answered:
        return await asyncio.to_thread(lambda: browser.ask(path, **headers))

    try:
        await asyncio.to_thread(ann.log_in, "ann", "ann:sécret")
        await asyncio.to_thread(first.log_in, "first", "first-secret")
        assert (await asyncio.to_thread(first.ask, "/new-topic", {"name": "orders"})).status == 303
        for path in OWN_PAGES:
            refused = await ask(ann, path)
            said = "User:ann lacks the operation Describe on the cluster (kafka-cluster)"
            assert (refused.status, said in refused.text) == (403, True), path
            if not path.startswith("/api/trace"):
                assert (await ask(first, path)).status == 200, path
        for path in ("/", "/topics", "/api/v1/topics", "/livez", "/login"):
            assert (await ask(ann, path)).status in (200, 303), path
        token = {"authorization": "Bearer scraper-token"}
        scraper = Browser(port, authority.certificate)
        assert (await ask(scraper, "/metrics", **token)).status == 200
        await authorizer.change({cluster: lambda _: (MAY_LOOK,)})
        assert {(await ask(ann, p)).status for p in OWN_PAGES if p != "/api/trace"} == {200}
        stream = HTTPSConnection("127.0.0.1", port, timeout=30, context=ann.context)
        known = basic("ann", "ann:sécret")
        stream.request("GET", "/api/trace?api=Heartbeat", headers=known)
        followed = await asyncio.to_thread(stream.getresponse)
        assert followed.status == 200
        await authorizer.change({cluster: lambda _: (MAY_LOOK._replace(host="10.0.0.1"),)})
        assert await asyncio.to_thread(followed.read) == b"", "it has ended"
        stream.close()
        assert {(await ask(ann, path)).status for path in OWN_PAGES} == {403}
    finally:
        await server.shutdown()
