"""Logins by OAUTHBEARER at the listeners of a whole broker, by tokens of an issuer on this machine
and by unsigned ones.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kbroker.certificates.authority import Authority
from kbroker.client.bootstrap import Bootstrap
from kbroker.client.broker_link import BrokerLink
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.connection_settings import ConnectionSettings, Tls, connection_settings
from kbroker.config.kafka_config import KafkaConfig
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.sasl.client_login import ClientLogin
from kbroker.sasl.login import Login
from kbroker.sasl.oauthbearer import BearerLogin
from kbroker.server.broker.kafka_server import KafkaServer
from kbroker.server.start.local_cluster import LocalCluster
from kbroker.server.start.start_refusals import refusals_of
from tests.fakes.running.waiting import until
from tests.fakes.tokens.issuer import AUDIENCE, NAME, Issuer, served

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
SETTINGS = {
    "listeners": "INSIDE://127.0.0.1:0,OPEN://127.0.0.1:0",
    "listener.security.protocol.map": "INSIDE:SASL_SSL,OPEN:SASL_PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.expected.issuer": NAME,
    "sasl.oauthbearer.expected.audience": AUDIENCE,
    "listener.name.open.oauthbearer.sasl.server.callback.handler.class": "org.apache.kafka.common."
    "security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
    "kbroker.oauthbearer.unsecured": "true",
    "connection.failed.authentication.delay.ms": "0",
}
KEYS = "listener.name.inside.oauthbearer.sasl.oauthbearer.jwks.endpoint.url"
LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
UNSIGNED = {**LOGIN, "sasl.jaas.config": f'{MODULE} unsecuredLoginStringClaim_sub="ann";'}


def fetching(url: str) -> dict[str, str]:
    return {
        **LOGIN,
        "sasl.oauthbearer.token.endpoint.url": f"{url}/token",
        "sasl.oauthbearer.client.id": "ann",
        "sasl.oauthbearer.client.secret": Issuer().secrets["ann"],
    }


def librdkafka(url: str) -> dict[str, str]:
    return {**fetching(url), "sasl.oauthbearer.method": "oidc"}


@contextmanager
def served_over_tls(issuer: Issuer, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the address, and the file of the authority. own.pem has a certificate of this host."""
    now = datetime.now(UTC)
    authority = Authority.made(now)
    own, trusted = folder / "own.pem", folder / "ca.pem"
    issued = authority.issue("127.0.0.1", ["127.0.0.1"], now, 1)
    own.write_text(issued.key + issued.certificate)
    trusted.write_text(authority.pem.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    with served(issuer, context) as url:
        yield url, str(trusted)


def connects(port: int, properties: dict[str, str], *, is_said: bool = False) -> bool:
    bootstrap = Bootstrap(f"127.0.0.1:{port}", connection_settings(properties))
    try:
        with closing(ClusterLinks(bootstrap)) as cluster:
            cluster.ask_any(MetadataRequest(topics=[]))
    except (ClientError, OSError):
        if is_said:
            raise
        return False
    return True


def session_ms(port: int, trusted: str, token: str) -> int:
    exchange = ClientLogin(
        Login(mechanism="OAUTHBEARER", tokens=lambda: BearerLogin(token)), "nonce"
    )
    settings = ConnectionSettings(tls=Tls(ca_file=trusted))
    with closing(BrokerLink("127.0.0.1", port, 10, settings)) as link:
        request = exchange.begin()
        while request is not None:
            request = exchange.receive(link.ask(request))
    return exchange.session_ms


async def test_tokens_of_the_issuer_let_users_in_as_long_as_they_last(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    issuer = Issuer()
    with served_over_tls(issuer, tmp_path) as (url, trusted):
        values = {
            **SETTINGS,
            KEYS: f"{url}/keys",
            "listener.name.inside.oauthbearer.sasl.jaas.config": f"{MODULE} "
            f'ssl.truststore.location="{trusted}" ssl.truststore.type="PEM";',
            "ssl.keystore.location": str(tmp_path / "own.pem"),
            "ssl.keystore.type": "PEM",
            "log.dirs": str(tmp_path / "data"),
        }
        by_tls = {"security.protocol": "SASL_SSL", "ssl.ca.location": trusted}
        token = {**fetching(url), **by_tls, "https.ca.location": trusted}
        server = KafkaServer(KafkaConfig.for_profile("dev", values))
        await server.startup()
        inside, unsigned = (end_point.port for end_point in server.end_points)

        def comes_in(properties: dict[str, str], port: int = inside) -> asyncio.Future[bool]:
            return asyncio.ensure_future(asyncio.to_thread(connects, port, properties))

        assert await comes_in(token)
        assert not await comes_in({**token, "sasl.oauthbearer.client.secret": "wrong"})
        with pytest.raises(ClientError, match=r"certificate verify failed|CERTIFICATE_VERIFY"):
            await asyncio.to_thread(connects, inside, {**fetching(url), **by_tls}, is_said=True)
        assert not await comes_in({**UNSIGNED, **by_tls})
        assert await comes_in(UNSIGNED, unsigned)
        assert not await comes_in({**token, "security.protocol": "SASL_PLAINTEXT"}, unsigned)

        ends = partial(asyncio.to_thread, session_ms, inside, trusted)
        assert 290_000 < await ends(issuer.token()) <= 300_000

        issuer.answering.clear()  # the server hangs, and the keys that are known stay in force
        known = issuer.token()
        issuer.change_key("second")
        with pytest.raises(Exception, match="invalid_token"):
            await ends(issuer.token())
        assert await ends(known)
        issuer.answering.set()
        await until(partial(comes_in, token))
        await server.shutdown()

    assert "OPEN takes tokens that nobody signed" in caplog.text
    assert "no key 'second' of its issuer" in caplog.text
    assert "algorithm is 'none'" in caplog.text
    assert "check whom the client has its token from" in caplog.text
    assert "password" not in caplog.text
    assert known.rpartition(".")[2] not in caplog.text


async def test_brokers_log_in_at_each_other_with_tokens_that_they_fetch(tmp_path: Path) -> None:
    issuer = Issuer()
    inside = "listener.name.inside.oauthbearer"
    with served(issuer) as url:
        values = {
            "listeners": "INSIDE://127.0.0.1:0",
            "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
            "sasl.oauthbearer.expected.issuer": NAME,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.jwks.endpoint.url": f"{url}/keys",
            "sasl.oauthbearer.token.endpoint.url": f"{url}/token",
            f"{inside}.sasl.jaas.config": f'{MODULE} clientId="ann" '
            f'clientSecret="{issuer.secrets["ann"]}";',
            "offsets.topic.num.partitions": "1",
        }
        configs = [
            KafkaConfig.for_profile(
                "dev", {**values, "broker.id": str(n), "log.dirs": str(tmp_path / f"data-{n}")}
            )
            for n in range(2)
        ]
        cluster = LocalCluster(configs, str(tmp_path))
        await cluster.startup()
        address = f"127.0.0.1:{cluster.end_points[1].port}"

        def written() -> int:
            admin = AdminClient({"bootstrap.servers": address, **librdkafka(url)})
            admin.create_topics([NewTopic("t", 2, 2)])["t"].result(20)
            producer = Producer({"bootstrap.servers": address, **librdkafka(url), "acks": "all"})
            for partition in range(2):
                producer.produce("t", b"x", partition=partition)
            left: int = producer.flush(20)
            return left

        assert await asyncio.to_thread(written) == 0
        await cluster.shutdown()


def test_a_listener_without_an_issuer_is_refused_before_a_port_is_bound() -> None:
    protocols = "INSIDE:SASL_PLAINTEXT,OPEN:SASL_PLAINTEXT"
    values = {**SETTINGS, "listener.security.protocol.map": protocols}
    errors = list(refusals_of(KafkaConfig.for_profile("dev", values)))

    assert [str(error) for error in errors] == [
        "OAUTHBEARER takes no token without sasl.oauthbearer.jwks.endpoint.url: set it to the "
        "address of the issuer's keys, https://HOST/PATH or file:///PATH"
    ]
