"""Transactions as brokers tell of them: which ids there are, what each has open, what partitions
remember of producers; and the end of one in a single partition (KIP-664).

Law: who asks which transactions there are must know whether that is all of them: a coordinator that
is silent, or reads its log still, has ids that nobody else knows.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.cluster_requests import TRANSACTIONAL_ID, ask_coordinator_by_id, check_all_told
from kbroker.errors import ErrorCode, KafkaError, Trouble
from kbroker.model import TopicPartition
from kbroker.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from kbroker.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kbroker.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kbroker.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

UNDECIDED = "Ongoing"
OPEN_STATES = (UNDECIDED, "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
STATES = ("Empty", *OPEN_STATES, "CompleteCommit", "CompleteAbort", "Dead")
_PATIENCE_S = 5.0
_PAUSE_S = 0.1
_PARTITIONS_AT_ONCE = 500
_IDS_AT_ONCE = 1_000

Producer = DescribeProducersResponse.ProducerState
EntryT = TypeVar("EntryT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    """A transactional id, and the broker that coordinates it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTransaction:
    """What a coordinator has stored of a transactional id; `start_ms` is Unix time, None if no
    transaction is open.
    """

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]

    @property
    def is_open(self) -> bool:
        """Whether partitions wait for its end."""
        return self.state in OPEN_STATES

    @property
    def times_out_ms(self) -> int | None:
        """Unix time from which on its coordinator aborts it; None if none is open, or how it
        ends is decided.
        """
        if self.start_ms is None or self.state != UNDECIDED:
            return None
        return self.start_ms + self.timeout_ms


# ---- transactional ids


def listed_transactions(
    links: ClusterLinks,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
    sleep: Callable[[float], None] = time.sleep,
) -> list[ListedTransaction]:
    """The ids of all brokers that answer, by name; `silent` of `links` has the brokers that do not.

    Raises OSError where no broker answers, KafkaError if one refuses.
    """
    request = ListTransactionsRequest(
        state_filters=list(states), producer_id_filters=list(producer_ids)
    )
    found: list[ListedTransaction] = []
    for broker in links.describe([]).brokers:
        try:
            answer = _loaded(links, broker.node_id, request, sleep)
        except OSError:
            continue
        found += [
            ListedTransaction(
                transactional_id=each.transactional_id,
                coordinator=broker.node_id,
                producer_id=each.producer_id,
                state=each.transaction_state,
            )
            for each in answer.transaction_states
        ]
    return sorted(found, key=lambda each: each.transactional_id)


def _loaded(
    links: ClusterLinks,
    broker_id: int,
    request: ListTransactionsRequest,
    sleep: Callable[[float], None],
) -> ListTransactionsResponse:
    """The answer of a broker once it has read its log."""
    give_up_s = time.monotonic() + _PATIENCE_S
    while True:
        answer: ListTransactionsResponse = links.ask(broker_id, request)
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.NONE:
            return answer
        is_waiting = code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if not is_waiting or time.monotonic() > give_up_s:
            raise KafkaError(code, f"the transactions of broker {broker_id}")
        sleep(_PAUSE_S)


def all_transactions(
    links: ClusterLinks,
    producer_ids: Collection[int],
    sleep: Callable[[float], None] = time.sleep,
) -> list[ListedTransaction]:
    """The ids of these producers, wherever they are coordinated.

    Raises ClientError if a coordinator does not answer or is missing, and KafkaError.
    """
    found = listed_transactions(links, producer_ids=producer_ids, sleep=sleep)
    brokers = sorted({broker.node_id for broker in links.describe([]).brokers} & set(links.silent))
    if brokers:
        raise ClientError(
            f"broker {brokers[0]} does not tell which transactions it coordinates: "
            f"{links.silent[brokers[0]]}",
            trouble=Trouble.ADVERTISED_ADDRESS,
        )
    check_all_told(links, TRANSACTIONAL_ID)
    return found


def describe_transaction(
    links: ClusterLinks, name: str, sleep: Callable[[float], None] = time.sleep
) -> DescribedTransaction | None:
    """A transactional id; None if nobody uses it.

    Raises OSError, KafkaError, ClientError.
    """

    def codes(answer: DescribeTransactionsResponse) -> list[int]:
        return [each.error_code for each in answer.transaction_states]

    request = DescribeTransactionsRequest(transactional_ids=[name])
    coordinator, answer = ask_coordinator_by_id(
        links, name, request, codes, sleep, TRANSACTIONAL_ID
    )
    (state,) = answer.transaction_states
    if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return None
    if state.error_code:
        raise KafkaError(ErrorCode(state.error_code), f"transactional id {name}")
    return _described(coordinator, state)


def describe_listed(
    links: ClusterLinks,
    listed: Iterable[ListedTransaction],
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[DescribedTransaction]:
    """Those that are still there, with few requests where their coordinators have not moved.

    Raises OSError, KafkaError, ClientError.
    """
    by_coordinator: defaultdict[int, list[str]] = defaultdict(list)
    for each in listed:
        by_coordinator[each.coordinator].append(each.transactional_id)
    for coordinator, names in by_coordinator.items():
        for part in _parts(names, _IDS_AT_ONCE):
            answer = links.ask(coordinator, DescribeTransactionsRequest(transactional_ids=part))
            for state in answer.transaction_states:
                found: DescribedTransaction | None = None
                if state.error_code == ErrorCode.NONE:
                    found = _described(coordinator, state)
                elif state.error_code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    found = describe_transaction(links, state.transactional_id, sleep)
                if found is not None:
                    yield found


def _described(
    coordinator: int, state: DescribeTransactionsResponse.TransactionState
) -> DescribedTransaction:
    is_open = state.transaction_state in OPEN_STATES and state.transaction_start_time_ms >= 0
    return DescribedTransaction(
        transactional_id=state.transactional_id,
        coordinator=coordinator,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        state=state.transaction_state,
        timeout_ms=state.transaction_timeout_ms,
        start_ms=state.transaction_start_time_ms if is_open else None,
        partitions=tuple(
            sorted(
                TopicPartition(topic.topic, number)
                for topic in state.topics
                for number in topic.partitions
            )
        ),
    )


# ---- partitions


def producers_of(
    links: ClusterLinks, leaders: Mapping[TopicPartition, int]
) -> dict[TopicPartition, list[Producer] | KafkaError]:
    """The producers that brokers, named beside partitions, remember there, or why they do not tell;
    partitions of brokers that do not answer are left out, and `silent` of `links` has the brokers.

    Raises KafkaError UNSUPPORTED_VERSION if a broker is older than Kafka 2.8.
    """
    by_broker: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for place, broker in leaders.items():
        by_broker[broker].append(place)
    found: dict[TopicPartition, list[Producer] | KafkaError] = {}
    for broker, places in by_broker.items():
        for part in _parts(places, _PARTITIONS_AT_ONCE):
            try:
                answer = links.ask(broker, _producers_request(part))
            except (OSError, ClientError):
                continue
            for topic in answer.topics:
                for entry in topic.partitions:
                    place = TopicPartition(topic.name, entry.partition_index)
                    code = ErrorCode(entry.error_code)
                    is_fine = code == ErrorCode.NONE
                    found[place] = (
                        entry.active_producers if is_fine else KafkaError(code, str(place))
                    )
    return found


def _producers_request(places: Iterable[TopicPartition]) -> DescribeProducersRequest:
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for topic, number in places:
        by_topic[topic].append(number)
    return DescribeProducersRequest(
        topics=[
            DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic.items()
        ]
    )


def _parts(entries: list[EntryT], most: int) -> Iterator[list[EntryT]]:
    for start in range(0, len(entries), most):
        yield entries[start : start + most]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortMarker:
    """The end of what a producer has open in one partition."""

    place: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


def abort_transaction(links: ClusterLinks, leader: int, marker: AbortMarker) -> ErrorCode:
    """Have the leader of a partition write it; what came of it. Raises OSError, KafkaError."""
    topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic(
        name=marker.place.topic, partition_indexes=[marker.place.partition]
    )
    wanted = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_result=False,
        topics=[topic],
    )
    answer = links.ask(leader, WriteTxnMarkersRequest(markers=[wanted]))
    return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)
