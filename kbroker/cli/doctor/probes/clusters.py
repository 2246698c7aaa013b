"""Asks a broker that let us in about the cluster, and every broker, at the address that clients are
given, about itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing, suppress

from kbroker.cli.doctor.observations import (
    Directory,
    Door,
    SeenBroker,
    SeenCluster,
    SeenTopic,
)
from kbroker.cli.doctor.probes.doors import Inside, knock
from kbroker.cli.doctor.rules.settings import WATCHED
from kbroker.cli.doctor.rules.topics import TRIAL_PREFIX
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_configs import minimums_in_sync
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.connection_settings import ConnectionSettings
from kbroker.client.partition_health import health_of
from kbroker.client.partition_requests import moves_under_way
from kbroker.client.topic_figures import found_at, leaders_of
from kbroker.client.topic_requests import BROKERS_DEFAULT
from kbroker.client.topic_rows import rows_of
from kbroker.client.wall_clock import unix_now_ms
from kbroker.config.config_resources import ResourceType
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import (
    GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    ReplicaAssignment,
    TopicPartition,
)
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kbroker.protocol.messages.list_offsets import MAX_TIMESTAMP
from kbroker.protocol.messages.metadata import MetadataResponse

_WITH_DEFAULTS = 4  # the version of CreateTopics from which brokers choose numbers
_CONTROLLER_MS = 3_000
_NO_CONTROLLER = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER)
_LOST = (OSError, ClientError, KafkaError)
_OTHER_ID = "broker id"  # in the words of a broker that is asked for the settings of another one
_STAMPED = (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC)  # brokers put their own times into them


def seen_cluster(links: ClusterLinks, *, has_controller: bool) -> SeenCluster:
    """Return brokers, controller and topics; without a controller brokers may wait for ever for
    what else there is to know. Raises OSError if no broker answers.
    """
    described = links.describe(None)
    minimums = _minimums(links, described) if has_controller else None
    moves = _moves(links, described.controller_id) if has_controller else None
    ids = tuple(sorted(broker.node_id for broker in described.brokers))
    away: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    offline: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for place, row in rows_of(described.topics):
        for node_id in row.replica_nodes:
            if node_id not in ids:
                away[node_id].append(place)
            elif node_id in row.offline_replicas:
                offline[node_id].append(place)
    return SeenCluster(
        cluster_id=described.cluster_id,
        controller_id=described.controller_id,
        broker_ids=ids,
        topics=tuple(_topic(each, minimums) for each in described.topics),
        health=health_of(described.topics, minimums, moves),
        away={node_id: tuple(places) for node_id, places in away.items()},
        offline={node_id: tuple(places) for node_id, places in offline.items()},
    )


def seen_broker(
    node_id: int, host: str, port: int, settings: ConnectionSettings, *, is_controller: bool
) -> SeenBroker:
    """Return a broker at the address that clients are given, and what it says of itself there;
    `is_controller`: the brokers name it as such.
    """
    door, link = knock(host, port, settings)
    if link is None:
        return SeenBroker(node_id=node_id, door=door)
    with closing(Inside(door, settings, link)) as inside:
        disowned, values = _own_settings(inside, node_id)
        silence, makes_topics = None, False
        if is_controller and disowned is None and _says_what_it_would_make(door):
            silence, makes_topics = _as_controller(inside)
        return SeenBroker(
            node_id=node_id,
            door=door,
            disowned=disowned,
            settings=values,
            directories=_directories(inside) if disowned is None else (),
            silence=silence,
            makes_topics=makes_topics,
        )


def latest_ahead_ms(links: ClusterLinks) -> dict[str, int]:
    """Return by how much the latest times in the brokers' own topics are ahead of now, in ms; only
    those of topics and brokers that say it. Raises OSError if no broker answers.
    """
    found: dict[str, int] = {}
    described = links.describe(_STAMPED)
    rows = found_at(links, leaders_of(described.topics), MAX_TIMESTAMP)
    now_ms = unix_now_ms()
    for place, row in rows.items():
        if row.timestamp > 0:
            ahead_ms = row.timestamp - now_ms
            found[place.topic] = max(ahead_ms, found.get(place.topic, ahead_ms))
    return found


def _topic(
    found: MetadataResponse.MetadataResponseTopic, minimums: Mapping[str, int] | None
) -> SeenTopic:
    replicas = [len(partition.replica_nodes) for partition in found.partitions]
    return SeenTopic(
        name=found.name or "",
        replication_factor=min(replicas, default=0),
        min_insync_replicas=(minimums or {}).get(found.name or ""),
        partitions=len(replicas),
    )


def _minimums(links: ClusterLinks, described: MetadataResponse) -> dict[str, int] | None:
    """Return `min.insync.replicas` by topic; None if it is not known."""
    with suppress(OSError, KafkaError):
        return minimums_in_sync(links, [str(topic.name) for topic in described.topics])
    return None


def _moves(
    links: ClusterLinks, controller_id: int
) -> dict[TopicPartition, ReplicaAssignment] | None:
    with suppress(OSError, KafkaError, ClientError):
        return moves_under_way(links, controller_id)
    return None


def _own_settings(inside: Inside, node_id: int) -> tuple[str | None, dict[str, str] | None]:
    """Return the words with which a broker says that it is another one, and its settings."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=ResourceType.BROKER,
        resource_name=str(node_id),
        configuration_keys=list(WATCHED),
    )
    try:
        (result,) = inside.ask(DescribeConfigsRequest(resources=[resource])).results
    except (*_LOST, ValueError):
        return None, None
    said = result.error_message or ""
    if result.error_code == ErrorCode.INVALID_REQUEST and _OTHER_ID in said:
        return said, None
    if result.error_code:
        return None, None
    return None, {row.name: row.value for row in result.configs if row.value is not None}


def _says_what_it_would_make(door: Door) -> bool:
    served = door.serves.get(ApiKey.CREATE_TOPICS)
    return served is not None and served.highest >= _WITH_DEFAULTS


def _as_controller(inside: Inside) -> tuple[str | None, bool]:
    """Ask a controller whether a topic could be made, with the brokers' own numbers of partitions
    and replicas; none is made. Returns why it does not say, None if it says yes or no, and whether
    it says yes. A broker of KRaft passes the question on to the controller there is.
    """
    topic = CreateTopicsRequest.CreatableTopic(
        name=f"{TRIAL_PREFIX}asked",
        num_partitions=BROKERS_DEFAULT,
        replication_factor=BROKERS_DEFAULT,
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=_CONTROLLER_MS, validate_only=True)
    try:
        (result,) = inside.ask(request).topics
    except OSError as error:
        return str(error), False
    except (ClientError, KafkaError, ValueError):
        return None, False
    code = ErrorCode(result.error_code)
    return code.name if code in _NO_CONTROLLER else None, code == ErrorCode.NONE


def _directories(inside: Inside) -> tuple[Directory, ...]:
    try:
        answer = inside.ask(DescribeLogDirsRequest(topics=[]))
    except _LOST:
        return ()
    return tuple(
        Directory(
            path=each.log_dir,
            is_offline=each.error_code == ErrorCode.KAFKA_STORAGE_ERROR,
            total_bytes=each.total_bytes,
            usable_bytes=each.usable_bytes,
        )
        for each in answer.results
    )
