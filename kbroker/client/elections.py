"""Elections of leaders that somebody asks for (KIP-183, KIP-460)."""

from __future__ import annotations

from collections.abc import Collection

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.cluster_requests import ask_controller
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.elect_leaders import ElectLeadersRequest

_TIMEOUT_MS = 20_000  # less than the client waits for an answer
_PREFERRED, _UNCLEAN = 0, 1


def elect_leaders(
    links: ClusterLinks, partitions: Collection[TopicPartition] | None, *, unclean: bool
) -> dict[TopicPartition, KafkaError | None]:
    """Hold elections for these partitions, or (None) for all that need one.

    Returns, for each, None if it has been held, or why not. Raises KafkaError if the whole
    request is refused, and what `ask_controller` raises.
    """
    wanted = None
    if partitions is not None:
        by_topic: dict[str, list[int]] = {}
        for topic, number in sorted(partitions):
            by_topic.setdefault(topic, []).append(number)
        wanted = [
            ElectLeadersRequest.TopicPartitions(topic=topic, partitions=numbers)
            for topic, numbers in by_topic.items()
        ]
    request = ElectLeadersRequest(
        election_type=_UNCLEAN if unclean else _PREFERRED,
        topic_partitions=wanted,
        timeout_ms=_TIMEOUT_MS,
    )
    answer = ask_controller(links, request)
    if answer.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(answer.error_code))
    return {
        TopicPartition(topic.topic, row.partition_id): (
            None
            if row.error_code == ErrorCode.NONE
            else KafkaError(ErrorCode(row.error_code), row.error_message)
        )
        for topic in answer.replica_election_results
        for row in topic.partition_result
    }
