"""Logins at a listener of a whole broker: users of its settings, of the cluster, and of a function
of Python; what the broker's settings have to say for them.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from kbroker.client.bootstrap import Bootstrap
from kbroker.client.broker_link import BrokerLink
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.connection_settings import ConnectionSettings, Login
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError, ErrorCode
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kbroker.sasl.scram_client import ScramClient
from kbroker.sasl.scram_keys import SCRAM_MECHANISMS, ScramCredential
from kbroker.server.broker.kafka_server import KafkaServer
from kbroker.server.start.start_refusals import refusals_of
from kbroker.zk import zk_paths
from kbroker.zk.nodes.entity_configs import ZkEntityConfigs
from tests.fakes.running.waiting import until

L = "listener.name.inside."
USERS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="ann-secret";'
SETTINGS = {
    "listeners": "INSIDE://127.0.0.1:0,CHECKED://127.0.0.1:0",
    "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT,CHECKED:SASL_PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN,SCRAM-SHA-256",
    f"{L}plain.sasl.jaas.config": USERS,
    f"{L}scram-sha-512.connections.max.reauth.ms": "60000",
    "listener.name.checked.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.checked.plain.sasl.server.callback.handler.class": f"{__name__}:check",
    "listener.name.checked.plain.connections.max.reauth.ms": "60000",
    "connection.failed.authentication.delay.ms": "0",
    "kbroker.first.user": "first:first-secret",
}


def check(username: str, password: str) -> bool:
    """Let one user in; a setting names this function."""
    if username == "broken":
        raise RuntimeError(password)
    return (username, password) == ("zoe", "zoe-secret")


async def test_who_is_a_user_at_the_time_of_the_login_comes_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = KafkaServer(
        KafkaConfig.for_profile("dev", {**SETTINGS, "log.dirs": str(tmp_path / "data")})
    )
    await server.startup()
    inside, checked = (end_point.port for end_point in server.end_points)
    users = ZkEntityConfigs(server.parts.storage.zk)

    async def is_let_in(port: int, mechanism: str, user: str, password: str) -> bool:
        login = Login(mechanism=mechanism, username=user, password=password)
        return await asyncio.to_thread(connects, port, login)

    async def give(user: str, *mechanisms: str, password: str = "pencil") -> None:
        stored = {
            name: str(ScramCredential.of_password(SCRAM_MECHANISMS[name], password, b"salt", 4_096))
            for name in mechanisms
        }
        await users.update(zk_paths.USER_CONFIGS, user, lambda _: stored)

    for mechanism in SCRAM_MECHANISMS:
        assert await is_let_in(inside, mechanism, "first", "first-secret")
    assert await is_let_in(inside, "PLAIN", "ann", "ann-secret")
    assert not await is_let_in(inside, "PLAIN", "ann", "zoe-secret")
    assert not await is_let_in(inside, "SCRAM-SHA-256", "bob", "pencil")
    await give("bob", "SCRAM-SHA-256")
    await until(lambda: is_let_in(inside, "SCRAM-SHA-256", "bob", "pencil"))
    assert not await is_let_in(inside, "SCRAM-SHA-256", "bob", "pen")
    assert not await is_let_in(inside, "SCRAM-SHA-512", "bob", "pencil")
    await give("bob", "SCRAM-SHA-512", password="pen")
    await until(lambda: is_let_in(inside, "SCRAM-SHA-512", "bob", "pen"))
    assert not await is_let_in(inside, "SCRAM-SHA-256", "bob", "pencil")
    session = await asyncio.to_thread(session_of_bob, inside, "pen")
    await give("bob")
    await until(lambda: is_not(is_let_in(inside, "SCRAM-SHA-512", "bob", "pen")))

    assert await asyncio.to_thread(ends_with_the_next_login, session, "pen")

    assert await is_let_in(checked, "PLAIN", "zoe", "zoe-secret")
    assert not await is_let_in(checked, "PLAIN", "ann", "ann-secret")
    assert not await is_let_in(checked, "PLAIN", "broken", "broken-secret")
    assert not await is_let_in(checked, "SCRAM-SHA-256", "zoe", "zoe-secret")
    assert not await asyncio.to_thread(connects, inside, None)
    assert await mechanisms_put(server, "PLAIN,GSSAPI") == ErrorCode.INVALID_REQUEST
    assert await is_let_in(inside, "PLAIN", "ann", "ann-secret")
    assert await mechanisms_put(server, "SCRAM-SHA-512") == ErrorCode.NONE
    await until(lambda: is_not(is_let_in(inside, "PLAIN", "ann", "ann-secret")))
    processor = server.parts.socket_server.processor
    counts = [processor.authentications_at(name).counts() for name in ("CHECKED", "INSIDE")]
    assert counts[0] == (1, 3, 0, 0)
    assert counts[1][2:] == (0, 1), "that of bob's session"
    assert "METADATA before a login: set security.protocol" in caplog.text
    assert "RuntimeError" in caplog.text
    assert "secret" not in caplog.text
    await server.shutdown()


async def test_the_first_user_is_added_once_and_replaces_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def users_after(first_user: str, *deleted: str) -> dict[str, dict[str, str]]:
        settings = {**SETTINGS, "log.dirs": str(tmp_path), "kbroker.first.user": first_user}
        server = KafkaServer(KafkaConfig.for_profile("dev", settings))
        await server.startup()
        entities = ZkEntityConfigs(server.parts.storage.zk)
        names = await entities.entities(zk_paths.USER_CONFIGS)
        found = await entities.all_overrides(zk_paths.USER_CONFIGS, names)
        for name in deleted:
            await entities.update(zk_paths.USER_CONFIGS, name, lambda _: {})
        await entities.update(zk_paths.USER_CONFIGS, "zoe", lambda _: {"SCRAM-SHA-256": "z"})
        await server.shutdown()
        return found

    assert (await users_after("ann:secret-a")).keys() == {"ann"}
    assert (await users_after("ann:secret-a")).keys() == {"ann", "zoe"}
    assert "kbroker.first.user" not in caplog.text
    assert (await users_after("ann:secret-b")).keys() == {"ann", "zoe"}
    assert "ann cannot log in with the password of kbroker.first.user" in caplog.text
    assert (await users_after("bob:secret-b", "ann")).keys() == {"ann", "zoe"}
    assert "bob cannot log in" in caplog.text
    assert await users_after("ann:secret-a") == {"zoe": {"SCRAM-SHA-256": "z"}}
    assert "secret-" not in caplog.text


async def mechanisms_put(server: KafkaServer, mechanisms: str) -> ErrorCode:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=4,
        resource_name="0",
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(
                name=f"{L}sasl.enabled.mechanisms", value=mechanisms
            )
        ],
    )
    (refused,) = await server.parts.services.configs.incremental_alter([resource], False)
    return ErrorCode.NONE if refused is None else refused.code


async def is_not(answer: asyncio.Future[bool] | object) -> bool:
    return not await answer  # type: ignore[misc]


def session_of_bob(port: int, password: str) -> BrokerLink:
    login = Login(mechanism="SCRAM-SHA-512", username="bob", password=password)
    return BrokerLink("127.0.0.1", port, 20, ConnectionSettings(login=login))


def ends_with_the_next_login(link: BrokerLink, password: str) -> bool:
    """Whether a session goes on, though its user is gone, until its client logs in again."""
    assert link.ask(MetadataRequest(topics=[])).brokers
    scram = ScramClient(SCRAM_MECHANISMS["SCRAM-SHA-512"], "bob", password, "nonce")
    assert not link.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-512")).error_code
    challenge = link.ask(SaslAuthenticateRequest(auth_bytes=scram.first())).auth_bytes
    refused = link.ask(SaslAuthenticateRequest(auth_bytes=scram.final(challenge)))
    with pytest.raises(OSError):  # noqa: PT011  whatever it is called
        link.ask(MetadataRequest(topics=[]))
    return bool(refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED)


def connects(port: int, login: Login | None) -> bool:
    bootstrap = Bootstrap(f"127.0.0.1:{port}", ConnectionSettings(login=login))
    try:
        with closing(ClusterLinks(bootstrap)) as cluster:
            cluster.ask_any(MetadataRequest(topics=[]))
            # A login again is one only if logins end, as in Kafka.
            again = cluster.ask_any(SaslHandshakeRequest(mechanism="PLAIN"))
            assert again.error_code in (ErrorCode.NONE, ErrorCode.ILLEGAL_SASL_STATE)
    except (ClientError, OSError):
        return False
    return True


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "listener INSIDE offers logins by GSSAPI, which kbroker does not serve"),
        ({f"{L}sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER"}, "names no users of PLAIN"),
        (
            {f"{L}sasl.enabled.mechanisms": "SCRAM-SHA-256,GSSAPI"},
            "listener INSIDE offers logins by GSSAPI, which kbroker does not serve: set "
            "listener.name.inside.sasl.enabled.mechanisms to PLAIN, SCRAM-SHA-256",
        ),
        ({"sasl.enabled.mechanisms": "SCRAM-SHA256"}, "no such mechanism is served, did you mean"),
        (
            {"sasl.enabled.mechanisms": "PLAIN", f"{L}plain.{'sasl.server.callback.handler.class'}": "a.B"},
            "name a Python function as module:name",
        ),
        (
            {"sasl.enabled.mechanisms": "PLAIN", f"{L}plain.sasl.server.callback.handler.class": "no.such:f"},
            "no.such cannot be imported",
        ),
        (
            {"sasl.enabled.mechanisms": "SCRAM-SHA-256", f"{L}scram-sha-256.sasl.server.callback.handler.class": "a:b"},
            "SCRAM checks logins by the users of the cluster",
        ),
    ],
    ids=range(7),
)  # fmt: skip
def test_logins_that_cannot_be_offered_are_refused_before_a_port_is_bound(
    settings: dict[str, str], sentence: str
) -> None:
    config = KafkaConfig.for_profile(
        "dev",
        {
            "listeners": "INSIDE://127.0.0.1:0",
            "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT",
            **settings,
        },
    )
    errors: list[ConfigError] = list(refusals_of(config))

    assert [sentence in str(error) for error in errors] == [True]
