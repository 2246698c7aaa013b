"""What the connector is given, and which topics are meant."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.model import TopicPartition
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.sources import kafka_source
from kbroker.pipeline.sources.kafka_source import KafkaSource


def described(*names: str, internal: str = "__consumer_offsets") -> list[dict[str, object]]:
    return [
        {
            "name": name,
            "is_internal": name == internal,
            "partitions": [{"partition_index": 0}, {"partition_index": 1}],
        }
        for name in names
    ]


def test_options_of_a_person_win_over_ours() -> None:
    source = KafkaSource(
        bootstrap="h:1",
        topics=("a",),
        options={"kafka.max.poll.records": "7", "minPartitions": "8"},
    )

    options = source.connector_options()

    assert options["kafka.bootstrap.servers"] == "h:1"
    assert options["kafka.isolation.level"] == "read_committed"
    assert options["failOnDataLoss"] == "true"
    assert options["includeHeaders"] == "true"
    assert (options["kafka.max.poll.records"], options["minPartitions"]) == ("7", "8")


def test_the_identity_does_not_depend_on_the_order_of_topics() -> None:
    one = KafkaSource(bootstrap="h:1", topics=("b", "a", "b"))
    other = KafkaSource(bootstrap="h:1", topics=("a", "b"))

    assert one.describe() == other.describe() == "kafka h:1 topics a,b"


class AdminOfFew:
    """A client of a cluster with two empty partitions of each topic."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def describe_topics(self, topics: list[str] | None = None) -> list[dict[str, object]]:
        return described(*self._names)

    def list_partition_offsets(self, wanted: Iterable[Any], isolation_level: object) -> Any:
        return {partition: SimpleNamespace(offset=0) for partition in wanted}


@pytest.fixture
def topics() -> tuple[str, ...]:
    return ("a",)


@pytest.fixture
def few(topics: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    admin = AdminOfFew(*topics)
    monkeypatch.setattr(kafka_source, "admin_client", lambda *_, **__: nullcontext(admin))


@pytest.mark.parametrize("topics", [("banana", "a", "__consumer_offsets")])
@pytest.mark.usefixtures("few")
def test_a_pattern_is_of_whole_names_and_leaves_out_internal_topics() -> None:
    found = KafkaSource(bootstrap="h:1", pattern="a|.*offsets").latest()

    assert found == {TopicPartition("a", 0): 0, TopicPartition("a", 1): 0}


@pytest.mark.usefixtures("few")
def test_a_topic_that_is_not_there_is_named() -> None:
    source = KafkaSource(bootstrap="h:1", topics=("a", "gone"))

    with pytest.raises(PipelineError, match=r"h:1 has no topic gone\. `kbroker topic list`"):
        source.latest()


@pytest.mark.parametrize("topics", [("orders", "payments")])
@pytest.mark.usefixtures("few")
def test_a_topic_that_is_misspelt_is_told_with_the_one_it_sounds_like() -> None:
    source = KafkaSource(bootstrap="h:1", topics=("gone", "ordrs"))

    with pytest.raises(
        PipelineError,
        match=r"h:1 has no topic gone; ordrs, did you mean orders\? `kbroker topic list`",
    ):
        source.latest()


@pytest.mark.usefixtures("few")
def test_a_pattern_that_nothing_matches_is_told() -> None:
    with pytest.raises(PipelineError, match="no topic at h:1 matches x"):
        KafkaSource(bootstrap="h:1", pattern="x.*").latest()


class AdminOfMany:
    """A client of a cluster with the topics a, b and c; notes what was asked."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def describe_topics(self, topics: list[str] | None = None) -> list[dict[str, object]]:
        self.asked.append(topics)
        wanted = ["a", "b", "c"] if topics is None else topics
        return [
            {
                **described(name)[0],
                "error_code": 0 if name in "abc" else 3,
                "topic_id": f"id-{name}",
            }
            for name in wanted
        ]


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> AdminOfMany:
    made = AdminOfMany()
    monkeypatch.setattr(kafka_source, "admin_client", lambda *_, **__: nullcontext(made))
    return made


def test_only_the_topics_that_were_chosen_are_asked_for(many: AdminOfMany) -> None:
    ids = KafkaSource(bootstrap="h:1", topics=("b", "a", "b")).topic_ids()

    assert ids == {"a": "id-a", "b": "id-b"}
    assert many.asked == [["a", "b"]]


def test_a_pattern_asks_for_all_topics(many: AdminOfMany) -> None:
    ids = KafkaSource(bootstrap="h:1", pattern="[bc]").topic_ids()

    assert ids == {"b": "id-b", "c": "id-c"}
    assert many.asked == [None]


def test_a_topic_that_the_cluster_answers_with_an_error_is_not_there(many: AdminOfMany) -> None:
    with pytest.raises(PipelineError, match=r"h:1 has no topic gone\. `kbroker topic list`"):
        KafkaSource(bootstrap="h:1", topics=("a", "gone")).topic_ids()


def test_an_address_where_nobody_listens_has_its_exit_code() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"

        with pytest.raises(PipelineError, match=f"cannot connect to {address}") as refused:
            KafkaSource(bootstrap=address, topics=("a",)).latest()

    assert refused.value.code == ExitCode.CANNOT_CONNECT
