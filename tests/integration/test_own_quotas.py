"""Limits of clients by code of the operator's, in a whole broker, as the page shows it."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.server.broker.kafka_server import KafkaServer
from kbroker.server.start.start_refusals import refusals_of
from tests.fakes.clusters.replication_cluster import batch
from tests.integration.test_authorizer import SETTINGS, Client

OWN = "client.quota.callback.class"
USERS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'user_ann="secret" user_bob="secret" user_eve="secret";'
)
RATE = 100_000  # bytes in a second, and so many at once


def settings_of(**more: str) -> dict[str, str]:
    login = {"listener.name.clients.plain.sasl.jaas.config": USERS, "authorizer.class.name": ""}
    windows = {"quota.window.num": "2", "quota.window.size.seconds": "1"}
    return {**SETTINGS, **login, **windows, **more}


async def pause_after(client: Client, size: int) -> int:
    """For how long a client has to pause that has sent so many bytes."""
    data = ProduceRequest.PartitionProduceData(records=batch(b"v" * size))
    topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[data])
    answer = await client.ask(ProduceRequest(acks=1, timeout_ms=20_000, topic_data=[topic]))
    return int(answer.throttle_time_ms)


async def test_a_team_shares_what_its_class_gives_it_as_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs/security.md").read_text()
    shown = page.partition("### Quotas by a class of your own")[2]
    (tmp_path / "team_quotas.py").write_text(shown.partition("```python\n")[2].partition("```")[0])
    monkeypatch.syspath_prepend(tmp_path)
    own = {
        OWN: "team_quotas:TeamQuotas",
        "team.members": "ann,bob",
        "log.dirs": str(tmp_path / "d"),
    }
    config = KafkaConfig.for_profile("dev", settings_of(**own))
    assert list(refusals_of(config)) == []
    server = KafkaServer(config)
    await server.startup()
    with (
        closing(Client(server, "ann")) as ann,
        closing(Client(server, "bob")) as bob,
        closing(Client(server, "eve")) as eve,
    ):
        assert (await eve.create_topic("orders"))[0] == 0
        assert await pause_after(eve, 3 * RATE) == 0
        assert await asyncio.gather(pause_after(ann, 10), pause_after(bob, 10)) == [0, 0]
        assert 500 < await pause_after(ann, 2 * RATE) < 2_000
        assert await pause_after(bob, 10) > 0, "both have one limit"
    await server.shutdown()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "com.example.Quotas",
            "Java classes are not served: name a Python function as module:name",
        ),
        ("no_such_module:Quotas", "no_such_module cannot be imported"),
    ],
)
def test_a_class_that_is_not_there_refuses_the_start(name: str, sentence: str) -> None:
    (refusal,) = refusals_of(KafkaConfig.for_profile("dev", settings_of(**{OWN: name})))

    assert isinstance(refusal, ConfigError)
    assert sentence in str(refusal)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("exits", "it cannot be made: SystemExit"), ("NoQuotas", "has no method quota_metric_tags")],
)
async def test_a_class_that_cannot_be_made_refuses_the_start(
    tmp_path: Path, name: str, sentence: str
) -> None:
    own = {OWN: f"{__name__}:{name}", "log.dirs": str(tmp_path / "d")}
    server = KafkaServer(KafkaConfig.for_profile("dev", settings_of(**own)))

    with pytest.raises(ConfigError, match=sentence):
        await server.startup()


def exits(_settings: object) -> None:
    """End the process, or try to."""
    raise SystemExit


class NoQuotas:
    """Takes settings, and decides nothing."""

    def __init__(self, settings: object) -> None:
        pass
