"""Clients that log in by OAUTHBEARER with tokens of an issuer on this machine: librdkafka and Java
fetch them by credentials, as our own commands do, the others are given theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AsyncTokenProvider
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from kafka.net.sasl.oauth import AbstractTokenProvider

from compat_tests.clients.secured_clients import Way, by_franz_go, by_kafkajs
from compat_tests.commands.command_line import run
from compat_tests.conftest import BrokerProcess
from compat_tests.running import apache_kafka
from tests.fakes.tokens.issuer import AUDIENCE, NAME, Issuer, served

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
LISTENER = "listener.name.sasl_plaintext"
PROTOCOL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
Start = Callable[[dict[str, str]], str]


class Tokens(AbstractTokenProvider):
    """Tokens for kafka-python, without a server."""

    def __init__(self, issuer: Issuer, user: str = "ann") -> None:
        self.issuer, self.user = issuer, user

    def token(self) -> str:
        return self.issuer.token(self.user)


class AsyncTokens(AsyncTokenProvider):
    """The same for aiokafka."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer

    async def token(self) -> str:
        return self.issuer.token()


@pytest.fixture
def start(target: str, tmp_path: Path) -> Iterator[Start]:
    """Starts a broker with these settings for its listener SASL_PLAINTEXT, and gives its address."""
    stops: list[Callable[[], object]] = []

    def begin(settings: dict[str, str]) -> str:
        port = apache_kafka.free_port()
        if target == "kafka":
            listeners = {"SASL_PLAINTEXT": port}
            started = apache_kafka.broker(apache_kafka.ZOOKEEPER_LINE, settings, listeners)
            started.__enter__()
            stops.append(lambda: started.__exit__(None, None, None))
            return f"127.0.0.1:{port}"
        listeners = {
            "listeners": f"PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:{port}",
            "inter.broker.listener.name": "PLAINTEXT",
        }
        given = [f"{name}={value}" for name, value in {**listeners, **settings}.items()]
        options = [word for each in given for word in ("--override", each)]
        broker = BrokerProcess(tmp_path / "broker" / "data", tuple(options))
        broker.start()
        stops.append(broker.stop)
        return f"127.0.0.1:{port}"

    if target not in ("kbroker", "kafka"):
        pytest.skip("starts a broker of its own")
    yield begin
    for stop in stops:
        stop()


def test_clients_of_all_families_log_in_with_tokens(
    start: Start, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    issuer = Issuer()
    with served(issuer) as url:
        allowed = f"{url}/keys,{url}/token"
        monkeypatch.setenv(
            "JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={allowed}"
        )
        bootstrap = start(
            {
                f"{LISTENER}.sasl.enabled.mechanisms": "OAUTHBEARER",
                f"{LISTENER}.oauthbearer.sasl.jaas.config": f"{PACKAGE}.OAuthBearerLoginModule "
                "required;",
                f"{LISTENER}.oauthbearer.sasl.server.callback.handler.class": f"{PACKAGE}.secured."
                "OAuthBearerValidatorCallbackHandler",
                "sasl.oauthbearer.jwks.endpoint.url": f"{url}/keys",
                "sasl.oauthbearer.expected.audience": AUDIENCE,
                "sasl.oauthbearer.expected.issuer": NAME,
            }
        )
        secret = issuer.secrets["ann"]
        librdkafka = {
            "bootstrap.servers": bootstrap,
            **PROTOCOL,
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "ann",
            "sasl.oauthbearer.client.secret": secret,
            "sasl.oauthbearer.token.endpoint.url": f"{url}/token",
        }
        kafka_python: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": Tokens(issuer),
        }
        admin = KafkaAdminClient(**kafka_python)
        admin.create_topics([NewTopic("t", 1, 1)])
        admin.close()
        assert "t" in AdminClient(librdkafka).list_topics(timeout=20).topics

        producer = Producer(librdkafka)
        producer.produce("t", b"librdkafka")
        assert producer.flush(20) == 0
        python_producer = KafkaProducer(**kafka_python)
        python_producer.send("t", b"kafka-python").get(20)
        python_producer.close()
        asyncio.run(produce_by_aiokafka(bootstrap, issuer))
        java = tmp_path / "java.properties"
        java.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
            f"sasl.login.callback.handler.class={PACKAGE}.secured.OAuthBearerLoginCallbackHandler\n"
            f"sasl.oauthbearer.token.endpoint.url={url}/token\n"
            f'sasl.jaas.config={PACKAGE}.OAuthBearerLoginModule required clientId="ann" '
            f'clientSecret="{secret}";\n'
        )
        told = apache_kafka.run_tool(
            "kafka.tools.ConsoleProducer", "--bootstrap-server", bootstrap, "--topic", "t",
            "--producer.config", str(java), version=apache_kafka.ZOOKEEPER_LINE, stdin="java\n",
        )  # fmt: skip
        assert told.returncode == 0, told.stderr
        done = run(
            "produce",
            "t",
            "--bootstrap",
            bootstrap,
            "--command-config",
            str(java),
            stdin="kbroker\n",
        )
        assert done.code == 0, done.err

        expected = {b"librdkafka", b"kafka-python", b"aiokafka", b"java", b"kbroker"}
        assert read_by_librdkafka(librdkafka, len(expected)) == expected
        consumer = KafkaConsumer(
            "t", group_id="python", auto_offset_reset="earliest", **kafka_python
        )
        assert {next(consumer).value for _ in expected} == expected
        consumer.close()
        assert asyncio.run(read_by_aiokafka(bootstrap, issuer, len(expected))) == expected
        told_by_command = run(
            "consume", "t", "--bootstrap", bootstrap, "--command-config", str(java), "--group", "g",
            "--count", str(len(expected)),
        )  # fmt: skip
        assert set(told_by_command.out.split()) == {each.decode() for each in expected}

        # Go is compiled, which takes time: only beside Apache Kafka. Neither of these clients
        # understands the refusal of a token, at either broker.
        for use in (by_kafkajs, by_franz_go) if target == "kafka" else (by_kafkajs,):
            way = Way(
                bootstrap, "SASL_PLAINTEXT", "OAUTHBEARER", issuer.token(), str(java), str(java)
            )
            assert use(way, use.__name__)
        wrong = run(
            "topic", "list", "--bootstrap", bootstrap, "--command-config", str(java),
            "-X", "sasl.oauthbearer.client.secret=wrong",
        )  # fmt: skip
        assert "status 401 (invalid_client: who are you?)" in wrong.refused(3)


async def produce_by_aiokafka(bootstrap: str, issuer: Issuer) -> None:
    async with AIOKafkaProducer(**aiokafka_settings(bootstrap, issuer)) as producer:
        await producer.send_and_wait("t", b"aiokafka")


async def read_by_aiokafka(bootstrap: str, issuer: Issuer, count: int) -> set[bytes]:
    settings = aiokafka_settings(bootstrap, issuer)
    async with AIOKafkaConsumer(
        "t", group_id="async", auto_offset_reset="earliest", **settings
    ) as consumer:
        return {(await consumer.getone()).value for _ in range(count)}


def aiokafka_settings(bootstrap: str, issuer: Issuer) -> dict[str, Any]:
    return {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": AsyncTokens(issuer),
    }


def read_by_librdkafka(settings: dict[str, str], count: int) -> set[bytes]:
    consumer = Consumer({**settings, "group.id": "c", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    try:
        return {message.value() for message in consumer.consume(count, 30)}
    finally:
        consumer.close()
