from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read_text

from kbroker.counters import CounterRegistry, Kind, Metric, MetricName, Table
from kbroker.http.answers import Answer
from kbroker.http.broker_loop import BrokerLoop
from kbroker.http.metrics_routes import metrics_routes
from kbroker.http.routes import Request

OPEN = "application/openmetrics-text; version=1.0.0,text/plain;q=0.5"


class OneLoop:
    """The broker's loop, which is this one; `is_held` keeps it from answering."""

    def __init__(self) -> None:
        self.is_held = False

    async def run(self, work: Callable[[], Awaitable[None]], _timeout_s: float) -> None:
        if self.is_held:
            raise TimeoutError
        await work()

    async def collect(self, steps: Callable[[], Iterator[Any]], _timeout_s: float) -> list[Any]:
        if self.is_held:
            raise TimeoutError
        return [value for value in steps() if value is not None]


@pytest.fixture
def loop() -> OneLoop:
    return OneLoop()


@pytest.fixture
def registry() -> CounterRegistry:
    registry = CounterRegistry()
    size = Metric(MetricName("kafka.log", "Log", "Size"), Kind.GAUGE)
    rows = [((topic, str(index)), (1,)) for topic in ("orders", "other") for index in range(1000)]
    registry.add_table(Table((size,), ("topic", "partition"), lambda: iter(rows)))
    bytes_in = MetricName("kafka.server", "BrokerTopicMetrics", "BytesInPerSec")
    registry.add(bytes_in, lambda: 5, Kind.COUNTER)
    return registry


Ask = Callable[..., Any]


@pytest.fixture
def ask(loop: OneLoop, registry: CounterRegistry) -> Ask:
    routes = metrics_routes(cast(BrokerLoop, loop), registry.samples, registry.prepare, 1500)
    route = routes["/metrics"]

    async def answer(query: dict[str, list[str]] | None = None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await route.answer(
            Request(path="/metrics", query=query or {}, headers=named, is_known=True)
        )

    return answer


async def test_who_asks_for_no_format_gets_the_old_one(ask: Ask) -> None:
    answer = await ask()

    assert answer.content_type.startswith("text/plain; version=0.0.4")
    assert len(list(read_text(answer.body.decode()))) == 3


async def test_what_others_know_is_learnt_before_each_page(
    ask: Ask, registry: CounterRegistry
) -> None:
    learnt = 0

    async def learn() -> None:
        nonlocal learnt
        learnt += 1

    registry.prepare_with(learn)
    registry.add(MetricName("kbroker.test", "Test", "Learnt"), lambda: learnt)

    pages = [(await ask()).body.decode() for _ in range(2)]

    assert [f"kbroker_test_test_learnt {n}\n" in page for n, page in enumerate(pages, 1)] == [
        True
    ] * 2


async def test_prometheus_gets_the_open_format(ask: Ask) -> None:
    answer = await ask(accept=OPEN)

    assert answer.content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert len(list(read_open(answer.body.decode()))) == 3


async def test_who_takes_gzip_gets_it(ask: Ask) -> None:
    plain = await ask()
    packed = await ask(accept_encoding="deflate, gzip;q=0.8")

    assert dict(packed.headers)["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body


@pytest.mark.parametrize("coding", ["", "identity", "gzip;q=0", "gzip; q=0.0"])
async def test_who_takes_no_gzip_gets_none(ask: Ask, coding: str) -> None:
    assert not (await ask(accept_encoding=coding)).headers


async def test_a_topic_can_be_asked_for(ask: Ask) -> None:
    text = (await ask({"topic": ["oth*"]})).body.decode()

    assert text.count('topic="other"') == 1000
    assert 'topic="orders"' not in text


async def test_partitions_beyond_the_limit_are_left_out(ask: Ask) -> None:
    text = (await ask()).body.decode()

    assert text.count("partition=") == 1500
    assert "kbroker_metrics_page_partitionsleftout 500\n" in text


async def test_a_dialect_can_be_asked_for(ask: Ask) -> None:
    text = (await ask({"dialect": ["confluent"]})).body.decode()

    assert "kafka_server_brokertopicmetrics_bytesinpersec 5\n" in text


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({"dialect": ["klingon"]}, "no such dialect: 'klingon'; there are kafka, confluent"),
        ({"dialect": ["kafka", "redpanda"]}, "no such dialect"),
        ({"topics": ["a"]}, "no such field: 'topics'; there are dialect, topic"),
        ({"dialect": ["\x1b[31m\n"]}, r"'\x1b[31m\n'"),
    ],
)
async def test_other_questions_are_refused(
    ask: Ask, query: dict[str, list[str]], reason: str
) -> None:
    answer = await ask(query)

    assert answer.status == 400
    assert reason in answer.body.decode()


async def test_two_pages_at_once_are_whole(ask: Ask) -> None:
    one, other = await asyncio.gather(ask(), ask())

    assert one.body == other.body
    assert len(list(read_text(one.body.decode()))) == 3


async def test_a_loop_that_does_not_answer_is_told(ask: Ask, loop: OneLoop) -> None:
    loop.is_held = True

    assert (await ask()).status == 503
