"""What docs/security.md shows of tokens: a broker with its settings, and its clients."""

from __future__ import annotations

import asyncio
import contextlib
import io
from pathlib import Path

from kbroker.client.bootstrap import Bootstrap
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.connection_settings import check_names, connection_settings, without_effect
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.properties_file import parse_properties
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.server.broker.kafka_server import KafkaServer
from tests.docs.pages import blocks, printed, text_of
from tests.fakes.tokens.issuer import AUDIENCE, NAME, Issuer, served

SECTION = text_of("security").partition("## Tokens\n")[2].partition("\n## ")[0]


async def test_clients_log_in_with_tokens_as_the_page_shows(tmp_path: Path) -> None:
    issuer, token = Issuer(), tmp_path / "token"
    issuer.secrets = {"ann": "ann-secret"}
    token.write_text(issuer.token())
    with served(issuer) as url:
        broker, client = (
            parse_properties(block.replace("https://issuer.example/", f"{url}/"))
            for block in blocks("properties", SECTION)
        )
        broker = {name: value.replace(":9092", ":0") for name, value in broker.items()}
        assert (broker["sasl.oauthbearer.expected.issuer"], AUDIENCE) == (
            NAME,
            broker["sasl.oauthbearer.expected.audience"],
        )
        log_dirs = {"log.dirs": str(tmp_path / "data")}
        server = KafkaServer(KafkaConfig.for_profile("dev", {**broker, **log_dirs}))
        await server.startup()
        address = f"127.0.0.1:{server.end_points[0].port}"

        def ran(program: str) -> list[str]:
            here = {
                "127.0.0.1:9092": address,
                "https://issuer.example/": f"{url}/",
                "/run/token": str(token),
            }
            for shown, real in here.items():
                program = program.replace(shown, real)
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(program, {})
            return output.getvalue().splitlines()

        for program in blocks("python", SECTION):
            assert await asyncio.to_thread(ran, program) == printed(program)
        check_names(client, "the page")
        assert without_effect(client) == []
        bootstrap = Bootstrap(address, connection_settings(client))
        assert await asyncio.to_thread(names_of_topics, bootstrap) == ["orders"]
        await server.shutdown()


def names_of_topics(bootstrap: Bootstrap) -> list[str]:
    with contextlib.closing(ClusterLinks(bootstrap)) as links:
        return [topic.name for topic in links.ask_any(MetadataRequest(topics=None)).topics]
