"""Connections between brokers by TLS and with logins."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.tls_settings import ClientTls, peer_tls, tls_settings
from kbroker.model import Broker
from kbroker.peers.broker_channels import BrokerChannels, answers
from kbroker.peers.broker_client import BrokerClient
from kbroker.peers.broker_login import BrokerLogin
from kbroker.peers.tls_connect import TlsConnect
from kbroker.peers.way import Ask, NotLetInError, Way
from kbroker.protocol.messages.update_metadata import UpdateMetadataResponse
from kbroker.replication.controller_requests.request_shapes import ControlRequest, ControlResponse
from kbroker.sasl.login import Login
from kbroker.sasl.login_gate import LoginGate, Offer, Outcome
from kbroker.sasl.plain import PlainServer
from kbroker.server.broker.broker_peers import way_into
from kbroker.tls.tls_context import server_context
from tests.fakes.certificates import Authority
from tests.fakes.requests.secure_peer import SecurePeer, answer_versions, sync
from tests.unit.sasl.logins import USERS, scram

LARGE = bytes(range(256)) * 8_000  # many records of TLS, and more than a socket takes at once
ANN = Login(mechanism="SCRAM-SHA-256", username="ann", password="ann-secret")
WRONG = Login(mechanism="PLAIN", username="ann", password="wro.ng")
SETTING = "listener.name.inside.plain.sasl.jaas.config"


class Certificates:
    """One authority, and brokers whose certificates it has signed."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self._broker = self.authority.issue("broker")

    def settings(self, **others: str) -> dict[str, str]:
        named = {f"ssl.{name.replace('_', '.')}": value for name, value in others.items()}
        return {
            "listeners": "INSIDE://:0",
            "listener.security.protocol.map": "INSIDE:SSL",
            **self._broker.settings(),
            **self.authority.trust(),
            **named,
        }

    def server(self, **others: str) -> ssl.SSLContext:
        config = KafkaConfig(self.settings(**{"client_auth": "required", **others}))
        return server_context(tls_settings(config, "INSIDE")).context

    def connect(self, **others: str) -> TlsConnect:
        return TlsConnect(lambda: self.client_tls(**others))

    def client_tls(self, **others: str) -> ClientTls:
        return peer_tls(KafkaConfig(self.settings(**others)), "INSIDE")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def client_of(peer: SecurePeer, way: Way) -> BrokerClient:
    return BrokerClient(peer.end_point, "7", 60_000, way=way, reconnect_backoff_ms=1)


def gate() -> LoginGate:
    offers = {"PLAIN": Offer(lambda: PlainServer(USERS)), "SCRAM-SHA-256": Offer(scram, 60_000)}
    return LoginGate(offers, answer_versions)


def logs_in(login: Login) -> BrokerLogin:
    return BrokerLogin(lambda: login, SETTING)


def renewed_at_once(login: BrokerLogin) -> Callable[..., object]:
    async def log_in(ask: Ask, peer: str) -> float:
        await login.log_in(ask, peer)
        return 0.0

    return log_in


async def refusal(peer: SecurePeer, way: Way) -> str:
    client = client_of(peer, way)
    with pytest.raises(NotLetInError) as refused:
        await client.send(sync(b"x"))
    client.close()
    return str(refused.value)


async def test_requests_of_any_size_go_through_tls_many_at_once(
    certificates: Certificates,
) -> None:
    async with SecurePeer(certificates.server()) as peer:
        client = client_of(peer, Way(certificates.connect()))
        wanted = [LARGE[: 7**power] for power in range(7)] + [LARGE] * 3

        answered = await asyncio.gather(*(client.send(sync(part)) for part in wanted))

        assert [each.assignment for each in answered] == wanted
        assert peer.connections == 1
        peer.cut()
        with pytest.raises(ConnectionResetError):
            await client.send(sync(b"lost"))
        assert (await client.send(sync(b"again"))).assignment == b"again"
        client.close()


async def test_a_login_comes_before_all_requests_and_again_amid_them(
    certificates: Certificates,
) -> None:
    async with SecurePeer(certificates.server(), gate) as peer:
        login = renewed_at_once(logs_in(ANN))
        client = client_of(peer, Way(certificates.connect(), login))

        answered = await asyncio.gather(*(client.send(sync(b"%d" % n)) for n in range(4)))

        assert [each.assignment for each in answered] == [b"0", b"1", b"2", b"3"]
        outcomes = [step.outcome for step in peer.steps]
        assert outcomes[:4] == [Outcome.ANSWERED] * 3 + [Outcome.LOGGED_IN]
        assert outcomes.count(Outcome.LOGGED_IN) == outcomes.count(Outcome.PASSED) == 4
        assert peer.connections == 1
        client.close()


async def test_a_refused_login_is_one_line_and_is_tried_again_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Local:
        async def send(self, request: ControlRequest) -> ControlResponse:
            return UpdateMetadataResponse()

    async with SecurePeer(begin=gate) as peer:
        way = Way(log_in=logs_in(WRONG).log_in)
        channels = BrokerChannels(1, Local(), ("INSIDE", None), 60_000, lambda _: way)
        other = Broker(broker_id=2, end_points=(peer.end_point,))
        for client in (channels.client(other), channels.client(other)):
            for _ in range(2):
                with pytest.raises(NotLetInError, match="refuses the login of ann with PLAIN"):
                    await client.send(sync(b"x"))
        assert peer.connections == 4

    (line,) = caplog.messages
    assert line.startswith("no connection: the broker at 127.0.0.1:")
    assert f"Invalid username or password): check {SETTING}" in line
    assert "wro.ng" not in line


async def test_whoever_is_not_trusted_is_named_with_what_to_do(
    certificates: Certificates, tmp_path: Path
) -> None:
    stranger = Certificates(tmp_path / "stranger")
    elsewhere = certificates.authority.issue("elsewhere", names=("DNS:elsewhere",))
    unchecked = certificates.connect(endpoint_identification_algorithm="")
    way = Way(certificates.connect())
    async with SecurePeer(certificates.server()) as peer:
        said = await refusal(peer, Way(stranger.connect()))
        assert "is signed by nobody trusted here (" in said
        assert said.endswith("add its authority to ssl.truststore")
    async with SecurePeer(certificates.server(keystore_location=str(elsewhere.pem))) as peer:
        assert "is not made for the name 127.0.0.1: advertise" in await refusal(peer, way)
        assert (await client_of(peer, Way(unchecked)).send(sync(b"x"))).assignment == b"x"
    tls = replace(certificates.client_tls(), suites_of_1_3=("TLS_AES_128_GCM_SHA256",))
    picky = Way(TlsConnect(lambda: tls))
    async with SecurePeer(certificates.server()) as peer:
        assert "it chose TLS_AES_256_GCM_SHA384" in await refusal(peer, picky)
    async with SecurePeer(certificates.server(client_auth="none")) as peer:
        assert await answers(peer.end_point)
    async with SecurePeer(begin=gate) as peer:
        assert await answers(peer.end_point)
    async with SecurePeer() as peer:
        assert not await answers(replace(peer.end_point, security_protocol="SSL"))
        assert "fails (" in (said := await refusal(peer, way))
        assert said.endswith("does it listen without TLS there, or with other versions and suites?")


async def test_new_connections_have_the_certificates_of_now(
    certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(Certificates(tmp_path / "stranger").authority.certificate.read_bytes())
    way = Way(certificates.connect(truststore_location=str(trusted)))
    async with SecurePeer(certificates.server()) as peer:
        assert "nobody trusted here" in await refusal(peer, way)

        trusted.write_bytes(certificates.authority.certificate.read_bytes())
        client = client_of(peer, way)
        assert (await client.send(sync(b"x"))).assignment == b"x"

        trusted.write_text("spoilt")
        client.close()
        assert (await client.send(sync(b"y"))).assignment == b"y"
        client.close()
    (line,) = caplog.messages
    assert "go on with the last certificates: ssl.truststore.location=" in line


async def test_a_login_is_by_the_settings_in_force() -> None:
    jaas = "listener.name.inside.plain.sasl.jaas.config"
    texts = {
        "listeners": "INSIDE://:0",
        "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        jaas: 'a.PlainLoginModule required username="ann" password="old" user_ann="old";',
    }
    config = KafkaConfig(texts)
    way = way_into(lambda: config, "INSIDE")
    async with SecurePeer(begin=gate) as peer:
        assert "refuses the login of ann" in await refusal(peer, way)

        config = KafkaConfig(texts, dynamic_broker={jaas: texts[jaas].replace("old", "ann-secret")})
        client = client_of(peer, way)
        assert (await client.send(sync(b"x"))).assignment == b"x"
        client.close()

        config = KafkaConfig(texts | {jaas: "a.PlainLoginModule required;"})
        assert "cannot be reached: " in await refusal(peer, way_into(lambda: config, "INSIDE"))
        assert "no login at the broker at 127.0.0.1:" in await refusal(peer, way)
