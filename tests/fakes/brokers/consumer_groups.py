"""Members of consumer groups (KIP-848) at a group coordinator."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from kbroker.coordinator.consumer_group.subscribed_patterns import Visible
from kbroker.coordinator.group.consumer_group_services import ConsumerGroupServices
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.fakes.brokers.group_broker import BROKER_ID, TOPIC_ID, GroupBroker

HEARTBEAT_MS, SESSION_MS, REBALANCE_MS = 5_000, 45_000, 20_000


class Settings(NamedTuple):
    """The settings of all groups."""

    session_timeout_ms: int = SESSION_MS
    heartbeat_interval_ms: int = HEARTBEAT_MS
    assignment_interval_ms: int = 0


_SETTINGS = Settings()


def consumer_groups(
    settings: Settings = _SETTINGS,
    *,
    max_size: int = 100,
    large_target: int = 10_000,
    large_write: int = 10_000,
    assignors: Sequence[str] = ("uniform", "range"),
    migration_policy: str = "disabled",
    pattern_refresh_ms: int = 600_000,
) -> ConsumerGroupServices:
    """Services for the consumer groups of a test's coordinator."""
    return ConsumerGroupServices(
        settings_of=lambda _: settings,
        max_size=max_size,
        assignors=assignors,
        migration_policy=migration_policy,
        large_target=large_target,
        large_write=large_write,
        pattern_refresh_ms=pattern_refresh_ms,
    )


def topic(name: str, topic_id: UUID, count: int) -> UpdateMetadataRequest:
    """The news of a topic."""
    return UpdateMetadataRequest(
        controller_id=BROKER_ID,
        live_brokers=[UpdateMetadataRequest.UpdateMetadataBroker(id=BROKER_ID, rack=None)],
        topic_states=[
            UpdateMetadataRequest.UpdateMetadataTopicState(
                topic_name=name,
                topic_id=topic_id,
                partition_states=[
                    UpdateMetadataRequest.UpdateMetadataPartitionState(
                        topic_name=name, partition_index=index
                    )
                    for index in range(count)
                ],
            )
        ],
    )


class MemberOf:
    """A member as its client keeps it: `told` of its assignment, `has` what it says it has."""

    def __init__(
        self,
        broker: GroupBroker,
        member_id: str,
        topics: Collection[str] = ("t",),
        *,
        group_id: str = "g",
        instance_id: str | None = None,
        client_id: str = "c",
        visible: Visible | None = None,
    ) -> None:
        """`visible` takes out the topics that it may not see."""
        self.broker = broker
        self.client_id, self.visible = client_id, visible
        self.member_id, self.group_id, self.instance_id = member_id, group_id, instance_id
        self.topics = topics
        self.epoch = 0
        self.told: list[int] = []  # of topic t

    def send(self, version: int = 1, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat of these fields."""
        return self._heard(self.sent(version, **fields))

    async def later(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat of these fields whose answer may come later."""
        answer = self.sent(**fields)
        return self._heard(await answer if inspect.isawaitable(answer) else answer)

    def _heard(self, answer: ConsumerGroupHeartbeatResponse) -> ConsumerGroupHeartbeatResponse:
        if answer.error_code == 0 and answer.member_epoch >= 0:
            self.epoch = answer.member_epoch
            self.member_id = answer.member_id or self.member_id
            if answer.assignment is not None:
                told = {
                    each.topic_id: each.partitions for each in answer.assignment.topic_partitions
                }
                self.told = sorted(told.get(TOPIC_ID, []))
        return answer

    def sent(self, version: int = 1, **fields: Any) -> Any:
        """Send a heartbeat of these fields; its answer may be one to be awaited."""
        given = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.instance_id,
        }
        return self.broker.groups.consumer_groups.heartbeat(
            ConsumerGroupHeartbeatRequest(**{**given, **fields}),
            api_version=version,
            client_id=self.client_id,
            client_host="/127.0.0.1",
            visible=self.visible,
        )

    def join(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Send the first heartbeat."""
        return self.send(**{**self.first(), **fields})

    def first(self) -> dict[str, Any]:
        """The fields of the first heartbeat."""
        return {
            "member_epoch": 0,
            "rebalance_timeout_ms": REBALANCE_MS,
            "subscribed_topic_names": list(self.topics),
            "topic_partitions": [],
        }

    def beat(self, has: Collection[int] | None = None) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat, with these partitions of t if given."""
        return self.send(topic_partitions=None if has is None else owned(has))


def owned(
    partitions: Collection[int],
) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
    """Partitions of topic t in a request."""
    if not partitions:
        return []
    mine = ConsumerGroupHeartbeatRequest.TopicPartitions
    return [mine(topic_id=TOPIC_ID, partitions=list(partitions))]


def refusal(answer: ConsumerGroupHeartbeatResponse) -> tuple[ErrorCode, str | None]:
    """Code and sentence of an answer."""
    return ErrorCode(answer.error_code), answer.error_message
