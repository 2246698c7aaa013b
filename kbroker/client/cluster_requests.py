"""Requests that only one broker of a cluster answers: its controller, or the coordinator of a group
or a transactional id. A broker that has just been elected is waited for.

Law: a request is sent again only if it was not sent, or if its broker refused it whole, because it
may be a change.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from kbroker.client.broker_link import BrokerLink
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.exit_code import ExitCode
from kbroker.errors import ErrorCode, KafkaError, Trouble
from kbroker.java_hash import java_hash
from kbroker.model import (
    GROUP_METADATA_TOPIC,
    NO_CONTROLLER,
    NO_LEADER,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
)
from kbroker.protocol.error_response import error_codes
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.schema import Message

_PATIENCE_S = 5.0
_PAUSE_S = 0.1
_MOST_NAMED = 10


class Coordinated(NamedTuple):
    """A kind of thing that has coordinators: how FindCoordinator and people name it, and where
    brokers keep it.
    """

    key_type: int
    noun: str
    topic: str
    replicas_setting: str
    kept: str


GROUP = Coordinated(
    0, "group", GROUP_METADATA_TOPIC, "offsets.topic.replication.factor", "its offsets are"
)
TRANSACTIONAL_ID = Coordinated(
    1,
    "transactional id",
    TRANSACTION_STATE_TOPIC,
    "transaction.state.log.replication.factor",
    "its state is",
)
_ELSEWHERE = (  # the coordinator is another broker, or not ready yet
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


def ask_controller(links: ClusterLinks, request: Message) -> Any:
    """Return the controller's answer.

    Raises ClientError if there is no controller or it cannot be reached, OSError if its answer
    got lost.
    """
    give_up_s = time.monotonic() + _PATIENCE_S
    while True:
        refused = None
        controller_id = links.describe([]).controller_id
        if controller_id != NO_CONTROLLER:
            try:
                return _ask_on(links, links.link(controller_id), request)
            except ConnectionRefusedError as error:
                refused = error
        if time.monotonic() > give_up_s:
            if refused is not None:
                raise ClientError(
                    f"broker {controller_id}, the controller, cannot be reached: {refused}; if it "
                    "was stopped or killed, another broker takes its place within "
                    "zookeeper.session.timeout.ms: try again then",
                    ExitCode.CANNOT_CONNECT,
                    Trouble.ADVERTISED_ADDRESS,
                ) from refused
            raise ClientError(
                f"the cluster of {links.bootstrap} has no controller now: check that its brokers "
                "reach its ZooKeeper, and try again",
                trouble=Trouble.NO_CONTROLLER,
            )
        links.sleep(_PAUSE_S)


def _ask_on(links: ClusterLinks, link: BrokerLink, request: Message) -> Any:
    """Ask on a link, and give the link up if the answer gets lost: it could still come."""
    try:
        return link.ask(request)
    except OSError:
        links.lose(link)
        raise


def ask_coordinator(
    links: ClusterLinks, name: str, request: Message, kind: Coordinated = GROUP
) -> tuple[int, Any]:
    """Return the id of the broker that coordinates a group or a transactional id, and its answer.

    Raises ClientError or KafkaError if there is no coordinator, and OSError if it does not answer.
    """
    give_up_s = time.monotonic() + _PATIENCE_S
    while True:
        place = _found(links, name, kind)
        code = ErrorCode(place.error_code)
        refusal: OSError | KafkaError = KafkaError(code, place.error_message)
        if code == ErrorCode.NONE:
            try:
                answer = links.ask(place.node_id, request)
            except ConnectionRefusedError as error:
                refusal = error
            else:
                elsewhere = [found for found in error_codes(answer) if found in _ELSEWHERE]
                if not elsewhere:
                    return place.node_id, answer
                refusal = KafkaError(ErrorCode(elsewhere[0]), f"the coordinator of {name}")
        elif code not in _ELSEWHERE:
            raise refusal
        if time.monotonic() > give_up_s:
            if code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                check_coordinator_partition(links, name, kind)
            raise refusal
        links.describe([])  # learns where the brokers are now
        links.sleep(_PAUSE_S)


def _found(links: ClusterLinks, name: str, kind: Coordinated) -> Any:
    request = FindCoordinatorRequest(key=name, key_type=kind.key_type, coordinator_keys=[name])
    answer = links.ask_any(request)
    (place,) = answer.coordinators or (answer,)  # one of many from version 4 on
    return place


def check_all_listed(links: ClusterLinks, kind: Coordinated) -> None:
    """Check that the brokers could name all groups, or all transactional ids.

    Raises ClientError if a partition that keeps some of them has no leader, or its leader was
    silent when it was asked; OSError if no broker answers.
    """
    leaders = links.topic(kind.topic).leaders
    dark = [number for number, leader in leaders.items() if leader == NO_LEADER]
    if dark:
        raise ClientError(
            f"{_places(kind, dark)} {'has' if len(dark) == 1 else 'have'} no leader: nobody "
            f"knows the {kind.noun}s that are kept there",
            trouble=Trouble.NO_LEADER,
        )
    silent = [number for number, leader in leaders.items() if leader in links.silent]
    if silent:
        raise ClientError(
            f"nobody knows the {kind.noun}s that are kept in {_places(kind, silent)}: "
            f"{'its' if len(silent) == 1 else 'their'} leader does not answer"
        )


def _places(kind: Coordinated, numbers: Sequence[int]) -> str:
    places = ", ".join(str(TopicPartition(kind.topic, number)) for number in numbers[:_MOST_NAMED])
    more = len(numbers) - _MOST_NAMED
    return f"{places} and {more} more" if more > 0 else places


def check_coordinator_partition(links: ClusterLinks, name: str, kind: Coordinated = GROUP) -> None:
    """Check that the partition which decides who coordinates a group or a transactional id can
    have a leader.

    Raises ClientError if it has none, or if its topic cannot be made; OSError if no broker answers.
    """
    leaders = links.topic(kind.topic).leaders
    give_up_s = time.monotonic() + _PATIENCE_S
    while not leaders:
        reason = None
        with suppress(TimeoutError):  # the broker waits, too
            place = _found(links, name, kind)  # the question makes the broker create the topic
            if place.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
                return
            reason = place.error_message
        if time.monotonic() > give_up_s:
            reason = reason or (
                f"there is no {kind.topic} (it needs as many brokers as "
                f"{kind.replicas_setting} says)"
            )
            raise ClientError(
                f"{kind.noun} {name} has no coordinator now: {reason}", trouble=Trouble.NO_LEADER
            )
        links.sleep(_PAUSE_S)
        leaders = links.topic(kind.topic).leaders
    partition = abs(java_hash(name)) % max(len(leaders), 1)
    if leaders.get(partition) == NO_LEADER:
        place = TopicPartition(kind.topic, partition)
        raise ClientError(
            f"{kind.noun} {name} has no coordinator now: {place}, where {kind.kept}, has no leader",
            trouble=Trouble.NO_LEADER,
        )
