"""Requests that one broker of a cluster answers and no other: its controller, or the coordinator of
a group. Each is asked again for a while where that broker is just being found.

Law: only what was not sent, or what its broker refused whole, is asked again: it may be a change as
well as a question.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.exit_code import ExitCode
from kbroker.errors import ErrorCode, KafkaError, Trouble
from kbroker.java_hash import java_hash
from kbroker.model import GROUP_METADATA_TOPIC, NO_CONTROLLER, NO_LEADER, TopicPartition
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.schema import Message

_PATIENCE_S = 5.0
_PAUSE_S = 0.1
_ELSEWHERE = (  # the coordinator is another broker, or not ready yet
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


def ask_controller(
    links: ClusterLinks, request: Message, sleep: Callable[[float], None] = time.sleep
) -> Any:
    """The controller's answer.

    Raises ClientError where there is none or it cannot be reached, OSError where its answer got
    lost.
    """
    give_up_s = time.monotonic() + _PATIENCE_S
    while True:
        refused = None
        controller_id = links.describe([]).controller_id
        if controller_id != NO_CONTROLLER:
            try:
                return links.link(controller_id).ask(request)
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
        sleep(_PAUSE_S)


def ask_coordinator(
    links: ClusterLinks,
    group: str,
    request: Message,
    codes_in: Callable[[Any], Iterable[int]],
    sleep: Callable[[float], None] = time.sleep,
) -> Any:
    """The answer of a group's coordinator; `codes_in` gives the error codes in an answer.

    Raises ClientError or KafkaError where there is no coordinator, and OSError where it does not
    answer.
    """
    find = FindCoordinatorRequest(key=group, coordinator_keys=[group])
    give_up_s = time.monotonic() + _PATIENCE_S
    while True:
        found = links.ask_any(find)
        (place,) = found.coordinators or (found,)  # one of many from version 4 on
        code = ErrorCode(place.error_code)
        refusal: OSError | KafkaError = KafkaError(code, place.error_message)
        if code == ErrorCode.NONE:
            try:
                answer = links.ask(place.node_id, request)
            except ConnectionRefusedError as error:
                refusal = error
            else:
                elsewhere = [found for found in codes_in(answer) if found in _ELSEWHERE]
                if not elsewhere:
                    return answer
                refusal = KafkaError(ErrorCode(elsewhere[0]), f"the coordinator of {group}")
        elif code not in _ELSEWHERE:
            raise refusal
        if time.monotonic() > give_up_s:
            if code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                check_offsets_partition(links, group, sleep)
            raise refusal
        links.describe([])  # where the brokers are now
        sleep(_PAUSE_S)


def check_offsets_partition(
    links: ClusterLinks, group: str, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Raises ClientError where the partition of `__consumer_offsets` that a group belongs to has no
    leader, or that topic cannot be made, and OSError where no broker answers.
    """
    leaders = links.topic(GROUP_METADATA_TOPIC).leaders
    give_up_s = time.monotonic() + _PATIENCE_S
    while not leaders:
        reason = None
        with suppress(TimeoutError):  # the broker waits, too
            # Who asks for a coordinator has the topic made.
            found = links.ask_any(FindCoordinatorRequest(key=group, coordinator_keys=[group]))
            (place,) = found.coordinators or (found,)
            if place.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
                return
            reason = place.error_message
        if time.monotonic() > give_up_s:
            reason = reason or (
                f"there is no {GROUP_METADATA_TOPIC} (it needs as many brokers as "
                "offsets.topic.replication.factor says)"
            )
            raise ClientError(
                f"group {group} has no coordinator now: {reason}", trouble=Trouble.NO_LEADER
            )
        sleep(_PAUSE_S)
        leaders = links.topic(GROUP_METADATA_TOPIC).leaders
    partition = abs(java_hash(group)) % max(len(leaders), 1)
    if leaders.get(partition) == NO_LEADER:
        place = TopicPartition(GROUP_METADATA_TOPIC, partition)
        raise ClientError(
            f"group {group} has no coordinator now: {place}, where its offsets are, has no leader",
            trouble=Trouble.NO_LEADER,
        )
