"""Asks a controller to create, grow and delete topics; returns its results as they come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.cluster_requests import ask_controller

TIMEOUT_MS = 20_000  # less than the client waits for an answer
BROKERS_DEFAULT = -1  # asks the broker for its own number of partitions or replicas


def create_topics(
    links: ClusterLinks,
    names: Iterable[str],
    settings: Mapping[str, str],
    *,
    partitions: int = BROKERS_DEFAULT,
    replication_factor: int = BROKERS_DEFAULT,
    replicas: Sequence[Sequence[int]] = (),
) -> list[Any]:
    """Create topics; returns a result for each: `name`, `error_code` and `error_message`.
    `replicas`: the brokers of each partition, in place of both numbers.

    Raises ClientError and OSError if no controller answers.
    """
    from kbroker.protocol.messages.create_topics import CreateTopicsRequest

    topics = [
        CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            assignments=[
                CreateTopicsRequest.CreatableReplicaAssignment(
                    partition_index=number, broker_ids=list(brokers)
                )
                for number, brokers in enumerate(replicas)
            ],
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
                for key, value in settings.items()
            ],
        )
        for name in dict.fromkeys(names)
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
    return list(ask_controller(links, request).topics)


def grow_topic(
    links: ClusterLinks,
    name: str,
    partitions: int,
    replicas: Sequence[Sequence[int]] | None = None,
) -> Any:
    """Give a topic more partitions, and return its result. `replicas`: the brokers of each new one;
    None: the cluster chooses them. Raises what `create_topics` raises.
    """
    from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest

    wanted = CreatePartitionsRequest.CreatePartitionsTopic(
        name=name,
        count=partitions,
        assignments=None
        if replicas is None
        else [
            CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=list(brokers))
            for brokers in replicas
        ],
    )
    request = CreatePartitionsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS)
    (result,) = ask_controller(links, request).results
    return result


def delete_topics(links: ClusterLinks, names: Iterable[str]) -> list[Any]:
    """Delete topics, with results and errors as for `create_topics`."""
    from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest

    wanted = list(dict.fromkeys(names))
    if not wanted:
        return []
    states = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in wanted]
    request = DeleteTopicsRequest(topics=states, topic_names=wanted, timeout_ms=TIMEOUT_MS)
    return list(ask_controller(links, request).responses)
