"""Listeners with TLS of a whole broker: whom it takes clients for, what it says of those that it
cannot take, and keys that change under open connections.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from kbroker.client.bootstrap import Bootstrap
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.connection_settings import ConnectionSettings, Tls
from kbroker.config.config_resources import ResourceType
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ErrorCode
from kbroker.peers.broker_channels import answers
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.sasl.login import Login
from kbroker.server.broker.broker_principals import Client
from kbroker.server.broker.kafka_server import KafkaServer
from tests.fakes.certificates import Authority, Issued
from tests.fakes.running.waiting import until
from tests.unit.sasl.logins import versions

STRICT, NAMED = "listener.name.strict.", "listener.name.named."
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="ann-secret";'
PROTOCOLS = "PLAIN:PLAINTEXT,ASKED:SSL,STRICT:SSL,LOGIN:SASL_SSL,NAMED:PLAINTEXT"


def principal_of(client: Client) -> str:
    """Name clients by their address; a setting names this function."""
    return f"User:at-{client.address}"


class Running(NamedTuple):
    """A broker, its ports by listener, and who signed its certificate."""

    server: KafkaServer
    ports: dict[str, int]
    authority: Authority
    folder: Path

    async def connected(
        self, listener: str, tls: Tls | None = None, login: Login | None = None
    ) -> ClusterLinks | None:
        """A client, if it is let in."""
        address = f"127.0.0.1:{self.ports[listener]}"
        bootstrap = Bootstrap(address, ConnectionSettings(tls=tls, login=login))
        try:
            return await asyncio.to_thread(ClusterLinks, bootstrap)
        except ClientError:
            return None

    def tls(self, shown: Issued | None = None) -> Tls:
        files = (None, None) if shown is None else (str(shown.certificate), str(shown.key))
        return Tls(
            ca_file=str(self.authority.certificate), certificate_file=files[0], key_file=files[1]
        )

    def principals(self) -> set[str]:
        channels = self.server.parts.socket_server.processor.channels
        return {channel.connection.principal for channel in channels}


async def start(folder: Path) -> Running:
    authority = Authority(folder)
    broker = authority.issue("broker", subject="/CN=b1")
    listeners = [each.partition(":")[0] for each in PROTOCOLS.split(",")]
    settings = {
        "listeners": ",".join(f"{each}://127.0.0.1:0" for each in listeners),
        "listener.security.protocol.map": PROTOCOLS,
        "inter.broker.listener.name": "PLAIN",
        "log.dirs": str(folder / "data"),
        **broker.settings(),
        **authority.trust(),
        "ssl.client.auth": "requested",
        "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+),.*$/$1/,DEFAULT",
        f"{STRICT}ssl.client.auth": "required",
        f"{STRICT}ssl.keystore.type": "PEM",
        f"{STRICT}ssl.keystore.location": str(broker.pem),
        f"{NAMED}principal.builder.class": f"{__name__}:principal_of",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": JAAS,
    }
    server = KafkaServer(KafkaConfig.for_profile("dev", settings))
    await server.startup()
    ports = {each.listener_name: each.port for each in server.end_points}
    return Running(server, ports, authority, folder)


async def in_thread(work: Callable[..., object], *given: object) -> object:
    return await asyncio.to_thread(work, *given)


async def test_clients_have_the_name_of_their_certificate_or_login_and_strangers_are_told_apart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running = await start(tmp_path)
    ann = running.authority.issue("ann", subject="/O=Acme/CN=ann")
    forged = Authority(tmp_path / "forged").issue("forged", subject="/O=Acme/CN=ann")
    login = Login(mechanism="PLAIN", username="ann", password="ann-secret")

    async def name_of(
        listener: str, tls: Tls | None = None, login: Login | None = None
    ) -> set[str]:
        links = await running.connected(listener, tls, login)
        principals = running.principals()
        if links is not None:
            links.close()
        await until(lambda: not running.principals())
        return principals

    assert await name_of("PLAIN") == {"User:ANONYMOUS"}
    assert await name_of("NAMED") == {"User:at-127.0.0.1"}
    assert await name_of("ASKED", tls=running.tls()) == {"User:ANONYMOUS"}
    assert await name_of("ASKED", tls=running.tls(ann)) == {"User:ann"}
    assert await name_of("STRICT", tls=running.tls(ann)) == {"User:ann"}
    # As in Kafka, such a listener asks for certificates only by a setting of its own.
    assert await name_of("LOGIN", tls=running.tls(), login=login) == {"User:ann"}

    # Another start asks so whether the broker is there.
    for each in running.server.end_points:
        assert await answers(each), each
    assert await name_of("STRICT", tls=running.tls()) == set()
    assert await name_of("STRICT", tls=running.tls(forged)) == set()
    assert await name_of("ASKED", tls=Tls()) == set()
    without_tls = Bootstrap(f"127.0.0.1:{running.ports['ASKED']}", ConnectionSettings())
    with pytest.raises(ClientError, match="if the port speaks TLS, give security"):
        await in_thread(ClusterLinks, without_tls)
    await in_thread(hears_of_the_end, running.ports["ASKED"], versions())
    for listener, begins in (("LOGIN", b"GET / HTTP/1.1\r\n"), ("ASKED", b"\x80")):
        await in_thread(says, running.ports[listener], begins)
    await in_thread(says, running.ports["PLAIN"], b"\x16\x03\x01\x02\x00\x01\x00")
    reasons = [
        "it showed no certificate, which ssl.client.auth=required asks for",
        "its certificate is signed by nobody trusted here (unable to get local issuer certificate)",
        "it does not know who signed this broker's certificate (TLSV1_ALERT_UNKNOWN_CA)",
        "it speaks Kafka without TLS to a listener of SSL: set security.protocol=SSL",
        "it speaks HTTP to a listener of Kafka with TLS",
        "it sent something else than TLS to a listener of SSL",
        "asks for TLS on a listener without it",
    ]
    await until(lambda: all(reason in caplog.text for reason in reasons))
    processor = running.server.parts.socket_server.processor
    assert len(processor.strangers) == 0
    counts = {name: processor.authentications_at(name).counts() for name in running.ports}
    assert [counts[name][0] for name in ("PLAIN", "STRICT", "LOGIN")] == [0, 1, 1]
    assert counts["STRICT"][1] >= 2, "without a certificate, and with a forged one"
    await running.server.shutdown()


def says(port: int, begins: bytes) -> None:
    """Send bytes, and wait for the end."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock, suppress(OSError):
        sock.sendall(begins)
        while sock.recv(1 << 16):
            pass


def hears_of_the_end(port: int, frame: bytes) -> None:
    """Send a frame without TLS: what is not read is no reason to reset a connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
        sock.sendall(len(frame).to_bytes(4, "big") + frame)
        assert sock.recv(1 << 16) == b""


async def test_keys_change_by_request_and_open_connections_keep_theirs(tmp_path: Path) -> None:
    running = await start(tmp_path)
    own_id = str(running.server.parts.storage.identity.broker_id)
    ann = running.authority.issue("ann", subject="/O=Acme/CN=ann")
    plain = await running.connected("PLAIN")
    open_before = await running.connected("STRICT", running.tls(ann))
    assert plain is not None
    assert open_before is not None
    before = await shown(running, "STRICT")
    file = running.folder / "broker.pem"

    async def give(path: Path) -> tuple[int, str | None]:
        change = IncrementalAlterConfigsRequest.AlterableConfig(
            name=f"{STRICT}ssl.keystore.location", config_operation=0, value=str(path)
        )
        request = IncrementalAlterConfigsRequest(
            resources=[
                IncrementalAlterConfigsRequest.AlterConfigsResource(
                    resource_type=ResourceType.BROKER, resource_name=own_id, configs=[change]
                )
            ]
        )
        (result,) = (await in_thread(plain.ask_any, request)).responses  # type: ignore[attr-defined]
        return result.error_code, result.error_message

    code, message = await give(running.authority.issue("other", subject="/CN=b2").pem)
    assert code == ErrorCode.INVALID_REQUEST
    assert "the new certificate is of CN=b2, the one in force of CN=b1" in str(message)
    assert (await give(tmp_path / "missing.pem"))[0] == ErrorCode.INVALID_REQUEST
    assert await shown(running, "STRICT") == before

    file.write_text(running.authority.issue("renewed", subject="/CN=b1").pem.read_text())
    assert await give(file) == (ErrorCode.NONE, None)  # the same path: read it again
    for listener in ("STRICT", "ASKED"):
        while not await differs(running, listener, before):  # noqa: ASYNC110  nothing tells of it
            await asyncio.sleep(0.005)
    await in_thread(open_before.ask_any, MetadataRequest(topics=[]))
    plain.close()
    open_before.close()
    await running.server.shutdown()


async def differs(running: Running, listener: str, before: bytes) -> bool:
    return await shown(running, listener) != before


def shown(running: Running, listener: str) -> Awaitable[bytes]:
    """The certificate that a listener shows."""

    def connect() -> bytes:
        context = ssl.create_default_context(cafile=running.authority.certificate)
        address = ("127.0.0.1", running.ports[listener])
        with (
            socket.create_connection(address, timeout=10) as sock,
            context.wrap_socket(sock, server_hostname="127.0.0.1") as tls,
        ):
            return tls.getpeercert(binary_form=True) or b""

    return asyncio.to_thread(connect)
