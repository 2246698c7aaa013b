"""Transactions as brokers report them: transactional ids, what each has open, and the producers
that partitions remember. Also aborts a transaction in a single partition (KIP-664).

Law: a caller that lists transactions must know whether the list is complete, because a coordinator
that is silent, or is still loading, has ids that no other broker knows.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.cluster_requests import TRANSACTIONAL_ID, ask_coordinator, check_all_listed
from kbroker.client.topic_rows import numbers_by_topic, rows_of
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
    """A transactional id, and the id of the broker that coordinates it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTransaction:
    """A transactional id as its coordinator stores it; `start_ms` is Unix time, None if no
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
        """Whether partitions still wait for the end of a transaction."""
        return self.state in OPEN_STATES

    @property
    def times_out_ms(self) -> int | None:
        """The Unix time after which the coordinator aborts the transaction; None if none is open,
        or its end is decided.
        """
        if self.start_ms is None or self.state != UNDECIDED:
            return None
        return self.start_ms + self.timeout_ms


# ---- transactional ids


def listed_transactions(
    links: ClusterLinks,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
) -> list[ListedTransaction]:
    """Return the ids of all brokers that answer, sorted by name; `links.silent` has the others.

    Raises OSError if no broker answers, KafkaError if one refuses.
    """
    request = ListTransactionsRequest(
        state_filters=list(states), producer_id_filters=list(producer_ids)
    )
    found: list[ListedTransaction] = []
    for broker in links.describe([]).brokers:
        try:
            answer = _loaded(links, broker.node_id, request)
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
    links: ClusterLinks, broker_id: int, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    """Return the answer of a broker once it has loaded its transactions."""
    give_up_s = time.monotonic() + _PATIENCE_S
    while True:
        answer: ListTransactionsResponse = links.ask(broker_id, request)
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.NONE:
            return answer
        is_waiting = code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if not is_waiting or time.monotonic() > give_up_s:
            raise KafkaError(code, f"the transactions of broker {broker_id}")
        links.sleep(_PAUSE_S)


def all_transactions(links: ClusterLinks, producer_ids: Collection[int]) -> list[ListedTransaction]:
    """Return the ids of these producers, wherever they are coordinated.

    Raises ClientError if a coordinator does not answer or is missing, and KafkaError.
    """
    found = listed_transactions(links, producer_ids=producer_ids)
    brokers = sorted({broker.node_id for broker in links.describe([]).brokers} & set(links.silent))
    if brokers:
        raise ClientError(
            f"broker {brokers[0]} does not say which transactions it coordinates: "
            f"{links.silent[brokers[0]]}",
            trouble=Trouble.ADVERTISED_ADDRESS,
        )
    check_all_listed(links, TRANSACTIONAL_ID)
    return found


def describe_transaction(links: ClusterLinks, name: str) -> DescribedTransaction | None:
    """Describe a transactional id; None if nobody uses it.

    Raises OSError, KafkaError, ClientError.
    """
    request = DescribeTransactionsRequest(transactional_ids=[name])
    coordinator, answer = ask_coordinator(links, name, request, TRANSACTIONAL_ID)
    (state,) = answer.transaction_states
    if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return None
    if state.error_code:
        raise KafkaError(ErrorCode(state.error_code), f"transactional id {name}")
    return _described(coordinator, state)


def describe_listed(
    links: ClusterLinks, listed: Iterable[ListedTransaction]
) -> Iterator[DescribedTransaction]:
    """Describe the ids that are still there, with few requests as long as coordinators stay.

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
                    found = describe_transaction(links, state.transactional_id)
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
    """Ask the broker given for each partition which producers it remembers there.

    Returns them, or why the broker refuses. Partitions of brokers that do not answer are left out,
    and `links.silent` has those brokers. Raises KafkaError UNSUPPORTED_VERSION if a broker is older
    than Kafka 2.8.
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
            for place, row in rows_of(answer.topics):
                code = ErrorCode(row.error_code)
                is_fine = code == ErrorCode.NONE
                found[place] = row.active_producers if is_fine else KafkaError(code, str(place))
    return found


def _producers_request(places: Iterable[TopicPartition]) -> DescribeProducersRequest:
    return DescribeProducersRequest(
        topics=[
            DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=numbers)
            for topic, numbers in numbers_by_topic(places).items()
        ]
    )


def _parts(entries: list[EntryT], most: int) -> Iterator[list[EntryT]]:
    for start in range(0, len(entries), most):
        yield entries[start : start + most]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortMarker:
    """The marker that aborts what a producer has open in one partition."""

    place: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


def abort_transaction(links: ClusterLinks, leader: int, marker: AbortMarker) -> ErrorCode:
    """Have the leader of a partition write a marker, and return what came of it.

    Raises OSError, KafkaError.
    """
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
