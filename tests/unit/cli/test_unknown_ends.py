"""`kbroker topic trim` and `kbroker group reset` where the leader of a partition does not know yet
where it ends: they wait, and then say that this is it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.group import reset as group_reset
from kbroker.cli.topic import trim as topic_trim
from kbroker.client.cluster_links import LATEST
from kbroker.client.consumer_groups import ConsumerGroup
from kbroker.errors import ErrorCode, Trouble
from kbroker.model import TopicPartition
from kbroker.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kbroker.protocol.messages.metadata import MetadataResponse

UNKNOWN = (
    "the end of orders-1 is not known since its leader changed (OFFSET_NOT_AVAILABLE): are fewer "
    "replicas in sync than min.insync.replicas asks for?"
)


class NewLeader:
    """Leads orders-0 and orders-1, from 0 to 10; does not know the end of orders-1 so many times."""

    def __init__(self, unknown: int) -> None:
        self.unknown = unknown
        self.silent: dict[int, Exception] = {}

    def sleep(self, _seconds: float) -> None:
        """Ask again at once."""

    def describe(self, _names: Any) -> MetadataResponse:
        partitions = [
            MetadataResponse.MetadataResponsePartition(partition_index=number, leader_id=1)
            for number in range(2)
        ]
        topic = MetadataResponse.MetadataResponseTopic(name="orders", partitions=partitions)
        return MetadataResponse(topics=[topic])

    def link(self, _leader: int) -> Any:
        return SimpleNamespace(ask=self._deleted)

    def ask(self, _leader: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
        rows = [self._offset(each) for each in request.topics[0].partitions]
        topics = [ListOffsetsResponse.ListOffsetsTopicResponse(name="orders", partitions=rows)]
        return ListOffsetsResponse(topics=topics)

    def _offset(self, asked: ListOffsetsRequest.ListOffsetsPartition) -> Any:
        is_end = asked.timestamp == LATEST
        code = ErrorCode.NONE
        if is_end and asked.partition_index == 1 and self.unknown:
            self.unknown -= 1
            code = ErrorCode.OFFSET_NOT_AVAILABLE
        return ListOffsetsResponse.ListOffsetsPartitionResponse(
            partition_index=asked.partition_index, error_code=code, offset=10 if is_end else 0
        )

    def _deleted(self, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        rows = [
            DeleteRecordsResponse.DeleteRecordsPartitionResult(
                partition_index=each.partition_index, low_watermark=each.offset
            )
            for each in request.topics[0].partitions
        ]
        topics = [DeleteRecordsResponse.DeleteRecordsTopicResult(name="orders", partitions=rows)]
        return DeleteRecordsResponse(topics=topics)


def run(monkeypatch: pytest.MonkeyPatch, cluster: NewLeader, *arguments: str) -> Result:
    @contextmanager
    def connected(_bootstrap: str) -> Iterator[NewLeader]:
        yield cluster

    module: Any = topic_trim if arguments[0] == "trim" else group_reset
    command: click.Command = getattr(module, arguments[0])
    monkeypatch.setattr(module, "cluster_links", connected)
    return CliRunner().invoke(command, [*arguments[1:], "--output", "jsonl"], standalone_mode=False)


def reset(monkeypatch: pytest.MonkeyPatch, cluster: NewLeader) -> Result:
    places = {TopicPartition("orders", number): 3 for number in range(2)}
    group = ConsumerGroup(name="g", state="Empty", committed=places)
    monkeypatch.setattr(group_reset, "read_group", lambda *_: group)
    return run(monkeypatch, cluster, "reset", "g", "--to", "latest")


def test_a_trim_waits_until_the_end_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, NewLeader(unknown=2), "trim", "orders", "--before", "4")

    assert (result.exception, result.stderr) == (None, "")
    assert [json.loads(line)["deleted"] for line in result.stdout.splitlines()] == [4, 4]


def test_a_trim_says_that_the_end_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", partial(next, count(step=3)))

    result = run(monkeypatch, NewLeader(unknown=99), "trim", "orders", "--before", "4")

    assert isinstance(result.exception, CommandError)
    assert result.exception.message == UNKNOWN
    assert result.exception.trouble is Trouble.NOT_ENOUGH_REPLICAS
    assert json.loads(result.stdout)["partition"] == 0, "the other one is trimmed"


def test_a_reset_waits_until_the_end_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    result = reset(monkeypatch, NewLeader(unknown=2))

    assert result.exception is None
    assert [json.loads(line)["new_offset"] for line in result.stdout.splitlines()] == [10, 10]


def test_a_reset_says_that_the_end_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", partial(next, count(step=3)))

    result = reset(monkeypatch, NewLeader(unknown=99))

    assert isinstance(result.exception, CommandError)
    assert result.exception.message == UNKNOWN
    assert result.exception.trouble is Trouble.NOT_ENOUGH_REPLICAS
