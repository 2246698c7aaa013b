"""A broker whose clients log in by delegation tokens: as their owners, as long as the tokens last."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kbroker.client.bootstrap import Bootstrap
from kbroker.client.client_error import ClientError, link_errors
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.connection_settings import ConnectionSettings
from kbroker.client.delegation_tokens import created_token, described_tokens, expired_token
from kbroker.config.kafka_config import KafkaConfig
from kbroker.delegation_tokens.delegation_token import password
from kbroker.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kbroker.sasl.login import Login
from kbroker.server.broker.kafka_server import KafkaServer

ANN = Login(mechanism="PLAIN", username="ann", password="ann-secret")
BUILDER = """
def build(client):
    return ("Service:" if client.login_name == "ann" else "User:") + client.login_name
"""


def config(folder: Path, secret: str, **others: str) -> KafkaConfig:
    return KafkaConfig.for_profile(
        "dev",
        {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(folder / "data"),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": "a.PlainLoginModule required "
            'user_ann="ann-secret";',
            "delegation.token.secret.key": secret,
            "connection.failed.authentication.delay.ms": "0",
            **{name.replace("_", "."): value for name, value in others.items()},
        },
    )


@contextmanager
def links(server: KafkaServer, login: Login) -> Iterator[ClusterLinks]:
    address = f"127.0.0.1:{server.end_points[0].port}"
    bootstrap = Bootstrap(address, ConnectionSettings(login=login))
    with link_errors(bootstrap):
        found = ClusterLinks(bootstrap)
        try:
            yield found
        finally:
            found.close()


def by_token(token: Any, mechanism: str = "SCRAM-SHA-512") -> Login:
    return Login(
        mechanism=mechanism,
        username=token.token_id,
        password=password(token.hmac),
        is_by_delegation=True,
    )


def made(server: KafkaServer, owner: str | None = None) -> Any:
    with links(server, ANN) as asked:
        return created_token(asked, owner, [], -1)


def code_of(server: KafkaServer, login: Login) -> int:
    """Ask for tokens; 64 is the answer to those who came by a token."""
    with links(server, login) as asked:
        return int(asked.ask_any(DescribeDelegationTokenRequest(owners=None)).error_code)


async def test_a_token_lets_its_holder_in_until_it_is_ended_or_signed_anew(tmp_path: Path) -> None:
    server = KafkaServer(config(tmp_path, "former"))
    await server.startup()

    def use() -> tuple[Any, Any]:
        token, ended = made(server), made(server)
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            assert code_of(server, by_token(token, mechanism)) == 64
        with links(server, ANN) as asked:
            expired_token(asked, ended.hmac, -1)
        with pytest.raises(ClientError, match="refuses the delegation token"):
            code_of(server, by_token(ended))
        return token, ended

    token, _ = await asyncio.to_thread(use)
    await server.shutdown()

    again = KafkaServer(config(tmp_path, "another"))
    await again.startup()

    def use_again() -> None:
        with pytest.raises(ClientError, match="refuses the delegation token"):
            code_of(again, by_token(token))
        with links(again, ANN) as asked:
            (anew,) = described_tokens(asked)
        assert anew.token_id == token.token_id
        assert anew.hmac != token.hmac
        assert code_of(again, by_token(anew)) == 64

    await asyncio.to_thread(use_again)
    await again.shutdown()


async def test_who_comes_by_a_token_is_its_owner_or_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "my_principals.py").write_text(BUILDER)
    monkeypatch.syspath_prepend(tmp_path)
    server = KafkaServer(config(tmp_path, "s", principal_builder_class="my_principals:build"))
    await server.startup()

    def use() -> None:
        own, other = made(server), made(server, "Group:bob")
        assert own.principal_type == "Service"
        assert code_of(server, by_token(own)) == 64
        with pytest.raises(ClientError):
            code_of(server, by_token(other))

    await asyncio.to_thread(use)
    await server.shutdown()
    assert "it has a token of Group:bob, and is User:bob here" in caplog.text
