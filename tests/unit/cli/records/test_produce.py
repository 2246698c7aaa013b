"""`kbroker produce` looks at the first line before it has a topic made for it."""

from __future__ import annotations

import os
import sys
from contextlib import closing

import pytest

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.records import produce as module
from kbroker.client.client_error import ClientError
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from kbroker.protocol.messages.metadata import MetadataResponse

MADE = "the topic was made"


class NoTopic:
    """A cluster without the topic; the test ends where it would be made."""

    def __init__(self, _bootstrap: str) -> None:
        pass

    def ready_topic(self, _name: str, *, creates: bool = False) -> None:
        if creates:
            raise ClientError(MADE)

    def close(self) -> None:
        pass


class NeverMade(NoTopic):
    """A cluster that does not make the topic, whatever `auto.create.topics.enable` of it says."""

    creates_topics: str | None = "true"

    def ready_topic(self, _name: str, *, creates: bool = False) -> None:
        assert creates in (False, True)

    def describe(self, _names: object) -> MetadataResponse:
        broker = MetadataResponse.MetadataResponseBroker(node_id=1, host="h", port=9092)
        topic = MetadataResponse.MetadataResponseTopic(name="orders-old")
        return MetadataResponse(brokers=[broker], topics=[topic])

    def ask(self, node_id: int, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        (asked,) = request.resources
        assert (node_id, asked.resource_name) == (1, "1")
        name = "auto.create.topics.enable"
        setting = DescribeConfigsResponse.DescribeConfigsResourceResult(
            name=name, value=self.creates_topics
        )
        refusal = ErrorCode.NONE if self.creates_topics else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResponse.DescribeConfigsResult(
                    error_code=refusal,
                    resource_type=asked.resource_type,
                    resource_name=asked.resource_name,
                    configs=[setting] if asked.configuration_keys == [name] else [],
                )
            ]
        )


class Forbidden(NeverMade):
    creates_topics = "false"


class Secretive(NeverMade):
    creates_topics = None


def end_of(
    monkeypatch: pytest.MonkeyPatch, given: bytes, *options: str, cluster: type = NoTopic
) -> str:
    """Produce these lines, and return the sentence that ends it."""
    monkeypatch.setattr(module, "open_links", lambda bootstrap: closing(cluster(bootstrap)))
    theirs, ours = os.pipe()
    os.write(ours, given)
    os.close(ours)
    with open(theirs, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(CommandError) as ended:
            module.produce.main(["orders", *options], standalone_mode=False)
    return ended.value.message


@pytest.mark.parametrize(
    ("options", "given", "reason"),
    [
        (("--input", "jsonl"), b'{"valu": 1}\n{"value": "v"}\n', "line 1: there is no field"),
        (("--input", "jsonl"), b'\n  \n{"value": 1}\n', "line 3: its value cannot be written"),
        (("--input", "jsonl"), b"no end of line", "line 1: it is not JSON"),
        (
            ("--input", "jsonl"),
            b'{"value": "v", "partition": -1}\n',
            'line 1: there is no partition -1 (a row without "partition" goes by its key)',
        ),
        (("--key-separator", ":"), b"kv\nk:v\n", "line 1: it has no key separator ':'"),
    ],
)
def test_no_topic_is_made_for_a_first_line_that_is_not_a_record(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], given: bytes, reason: str
) -> None:
    said = end_of(monkeypatch, given, *options)

    assert said.startswith(reason)
    assert said.endswith("; no record was written (--keep-going skips such lines)")


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ((), b"anything\n"),
        ((), b""),
        (("--input", "jsonl"), b""),
        (("--input", "jsonl"), b"\n\n"),
        (("--input", "jsonl"), b'{"value": "v", "key": "k"}\nbad\n'),
        (("--input", "jsonl"), b'{"value": "v", "partition": 7}\n'),
        (("--input", "jsonl", "--keep-going"), b"bad\n"),
        (("--key-separator", ":"), b"k:v\nbad\n"),
    ],
)
def test_a_topic_is_made_for_a_first_line_that_may_be_a_record(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], given: bytes
) -> None:
    assert end_of(monkeypatch, given, *options) == MADE


def test_a_broker_that_makes_topics_but_has_no_room_is_not_told_as_a_wrong_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "names_of_topics", lambda _: ["orders-old"])
    said = end_of(monkeypatch, b"v\n", cluster=NeverMade)

    assert said == (
        "the broker could not create the topic orders now: its log says why, most often a full disk"
    )


@pytest.mark.parametrize("cluster", [Forbidden, Secretive])
def test_a_topic_that_no_broker_makes_is_a_wrong_name(
    monkeypatch: pytest.MonkeyPatch, cluster: type
) -> None:
    monkeypatch.setattr(module, "names_of_topics", lambda _: ["orders-old"])
    assert end_of(monkeypatch, b"v\n", cluster=cluster).startswith("no such topic: orders")
