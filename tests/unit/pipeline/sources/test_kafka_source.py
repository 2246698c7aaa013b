"""What the connector is given, and which topics are meant."""

from __future__ import annotations

import socket
from contextlib import nullcontext
from typing import Any
from uuid import UUID

import pytest

from kbroker.client.cluster_links import TopicView
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.sources import kafka_source
from kbroker.pipeline.sources.kafka_source import KafkaSource
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse


def view(name: str, code: ErrorCode = ErrorCode.NONE) -> TopicView:
    return TopicView(
        name=name,
        code=code,
        topic_id=UUID(int=ord(name[0])),
        is_internal=name == "__consumer_offsets",
        leaders={0: 1, 1: 1},
    )


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


class FewTopics:
    """A cluster with two empty partitions of each topic."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def topics(self, _names: list[str] | None) -> list[TopicView]:
        return [view(name) for name in self._names]

    def ask(self, _node_id: int, request: ListOffsetsRequest) -> Any:
        answer = ListOffsetsResponse
        return answer(
            topics=[
                answer.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        answer.ListOffsetsPartitionResponse(
                            partition_index=each.partition_index, offset=0
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


@pytest.fixture
def topics() -> tuple[str, ...]:
    return ("a",)


@pytest.fixture
def few(topics: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FewTopics(*topics)
    monkeypatch.setattr(kafka_source, "cluster_links", lambda _: nullcontext(cluster))


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


class ManyTopics:
    """A cluster with the topics a, b and c; notes what was asked."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def topics(self, names: list[str] | None) -> list[TopicView]:
        self.asked.append(names)
        wanted = ["a", "b", "c"] if names is None else names
        gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return [view(name, ErrorCode.NONE if name in "abc" else gone) for name in wanted]


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> ManyTopics:
    made = ManyTopics()
    monkeypatch.setattr(kafka_source, "cluster_links", lambda _: nullcontext(made))
    return made


def test_only_the_topics_that_were_chosen_are_asked_for(many: ManyTopics) -> None:
    ids = KafkaSource(bootstrap="h:1", topics=("b", "a", "b")).topic_ids()

    assert ids == {name: str(view(name).topic_id) for name in "ab"}
    assert many.asked == [["a", "b"]]


def test_a_pattern_asks_for_all_topics(many: ManyTopics) -> None:
    ids = KafkaSource(bootstrap="h:1", pattern="[bc]").topic_ids()

    assert ids == {name: str(view(name).topic_id) for name in "bc"}
    assert many.asked == [None]


def test_a_topic_that_the_cluster_answers_with_an_error_is_not_there(many: ManyTopics) -> None:
    with pytest.raises(PipelineError, match=r"h:1 has no topic gone\. `kbroker topic list`"):
        KafkaSource(bootstrap="h:1", topics=("a", "gone")).topic_ids()


def test_an_address_where_nobody_listens_has_its_exit_code() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"

        with pytest.raises(PipelineError, match=f"cannot connect to {address}") as refused:
            KafkaSource(bootstrap=address, topics=("a",)).latest()

    assert refused.value.code == ExitCode.CANNOT_CONNECT
