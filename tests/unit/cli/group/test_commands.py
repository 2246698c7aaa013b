"""What `kbroker group describe` shows of the offsets and members of a group."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from kbroker.cli.group import commands as module
from kbroker.client.cluster_links import LATEST
from kbroker.client.consumer_groups import (
    ConsumerGroup,
    GroupEpochs,
    GroupMember,
    MemberOnTheWay,
)
from kbroker.model import TopicPartition
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kbroker.protocol.messages.metadata import MetadataResponse


class Trimmed:
    """Broker 1 leads orders-0, of which the offsets 5 to 9 are left; orders-1 has no leader."""

    silent: dict[int, Exception] = {}  # noqa: RUF012

    def describe(self, _names: Any) -> MetadataResponse:
        partitions = [
            MetadataResponse.MetadataResponsePartition(partition_index=number, leader_id=leader)
            for number, leader in enumerate((1, -1))
        ]
        topic = MetadataResponse.MetadataResponseTopic(name="orders", partitions=partitions)
        return MetadataResponse(topics=[topic])

    def ask(self, _leader: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
        (asked,) = request.topics[0].partitions
        row = ListOffsetsResponse.ListOffsetsPartitionResponse(
            offset=10 if asked.timestamp == LATEST else 5
        )
        topic = ListOffsetsResponse.ListOffsetsTopicResponse(name="orders", partitions=[row])
        return ListOffsetsResponse(topics=[topic])


def test_a_committed_offset_below_the_start_of_the_log_can_be_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextmanager
    def connected(_bootstrap: str) -> Iterator[Trimmed]:
        yield Trimmed()

    committed = {TopicPartition("orders", 0): 3, TopicPartition("orders", 1): 4}
    group = ConsumerGroup(name="g", state="Empty", committed=committed)
    monkeypatch.setattr(module, "cluster_links", connected)
    monkeypatch.setattr(module, "read_group", lambda *_: group)

    shown = CliRunner().invoke(module.group, ["describe", "g", "--output", "jsonl"])

    offsets = [
        (row["committed_offset"], row["start_offset"], row["end_offset"], row["lag"])
        for row in map(json.loads, shown.stdout.splitlines())
    ]
    assert offsets == [(3, 5, 10, 7), (4, None, None, None)]


def test_who_holds_a_group_up_is_named_with_what_it_has_still_to_give_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextmanager
    def connected(_bootstrap: str) -> Iterator[Trimmed]:
        yield Trimmed()

    places = tuple(TopicPartition("orders", number) for number in range(2))

    def member(name: str, has: tuple[TopicPartition, ...]) -> GroupMember:
        way = MemberOnTheWay(protocol="consumer", epoch=2, target=places[:1])
        return GroupMember(
            member_id=name, client_id="app", host="/127.0.0.1", partitions=has, way=way
        )

    group = ConsumerGroup(
        name="g", state="Reconciling", members=(member("m1", places), member("m2", ())),
        committed={}, strategy="uniform", epochs=GroupEpochs(3, 3),
    )  # fmt: skip
    monkeypatch.setattr(module, "cluster_links", connected)
    monkeypatch.setattr(module, "read_group", lambda *_: group)

    shown = CliRunner().invoke(module.group, ["describe", "g", "--members"])

    assert shown.stderr.splitlines()[-1] == (
        "group g is Reconciling: 2 members, epoch 3, assigned by uniform, "
        "waits for 'm1' (client 'app') to give up orders-1"
    )
