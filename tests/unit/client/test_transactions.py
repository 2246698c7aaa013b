"""Transactions as coordinators and leaders tell of them, and which of them hang."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any, cast

import pytest

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks, TopicView
from kbroker.client.hanging_transactions import OpenTransaction, Search, find_hanging, owner_of
from kbroker.client.transactions import (
    AbortMarker,
    ListedTransaction,
    abort_transaction,
    describe_listed,
    describe_transaction,
    listed_transactions,
    producers_of,
)
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import NO_LEADER, TopicPartition
from kbroker.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from kbroker.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kbroker.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kbroker.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kbroker.protocol.messages.metadata import MetadataResponse
from kbroker.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
LEADERS = {P0: 1, P1: 2}
NOW_MS = 1_000_000
IDLE_MS = 900_000
YOUNG_MS = NOW_MS - IDLE_MS  # when something was written too lately
GONE = ConnectionResetError("it closed the connection")


class Cluster:
    """Two brokers; what they answer by broker and request class, the last one for ever."""

    bootstrap = "h:1"

    def __init__(self, answers: dict[tuple[int, type], list[Any]]) -> None:
        self.answers = {key: deque(given) for key, given in answers.items()}
        self.asked: defaultdict[str, list[int]] = defaultdict(list)
        self.requests: list[Any] = []
        self.silent: dict[int, Exception] = {}
        self.coordinator = 1
        self.state_leaders = {0: 1, 1: 2}
        self.slept = 0

    def describe(self, _names: list[str]) -> MetadataResponse:
        brokers = [MetadataResponse.MetadataResponseBroker(node_id=number) for number in (1, 2)]
        return MetadataResponse(brokers=brokers)

    def topic(self, name: str) -> TopicView:
        return TopicView(name=name, code=ErrorCode.NONE, leaders=self.state_leaders)

    def ask_any(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        assert request.key_type == 1
        return FindCoordinatorResponse(node_id=self.coordinator)

    def ask(self, broker: int, request: Any) -> Any:
        self.asked[type(request).__name__].append(broker)
        self.requests.append(request)
        self.silent.pop(broker, None)
        given = self.answers[broker, type(request)]
        answer = given.popleft() if len(given) > 1 else given[0]
        if isinstance(answer, OSError):
            self.silent[broker] = answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    def sleep(self, _seconds: float) -> None:
        self.slept += 1


def links(cluster: Cluster) -> ClusterLinks:
    return cast("ClusterLinks", cluster)


def listing(*names: str, code: ErrorCode = ErrorCode.NONE) -> ListTransactionsResponse:
    """Ids `NAME:PRODUCER_ID`."""
    return ListTransactionsResponse(
        error_code=code,
        transaction_states=[
            ListTransactionsResponse.TransactionState(
                transactional_id=name, producer_id=int(number), transaction_state="Ongoing"
            )
            for name, _, number in (each.partition(":") for each in names)
        ],
    )


def state(
    name: str, producer_id: int = 0, code: ErrorCode = ErrorCode.NONE, *partitions: int,
    is_named: str = "Ongoing", start_ms: int = 5,
) -> DescribeTransactionsResponse.TransactionState:  # fmt: skip
    topic = DescribeTransactionsResponse.TopicData(topic="t", partitions=list(partitions))
    return DescribeTransactionsResponse.TransactionState(
        error_code=code, transactional_id=name, producer_id=producer_id, producer_epoch=3,
        transaction_state=is_named, transaction_timeout_ms=60_000, transaction_start_time_ms=start_ms,
        topics=[topic] if partitions else [],
    )  # fmt: skip


def states(*given: Any) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(transaction_states=list(given))


def producers(partition: int, *given: tuple[int, int, int], code: int = 0) -> Any:
    """Answer with producers of a partition: id, start offset, last timestamp."""
    told = DescribeProducersResponse.PartitionResponse(
        partition_index=partition,
        error_code=code,
        active_producers=[
            DescribeProducersResponse.ProducerState(
                producer_id=number, producer_epoch=3, coordinator_epoch=-1,
                current_txn_start_offset=offset, last_timestamp=timestamp,
            )
            for number, offset, timestamp in given
        ],
    )  # fmt: skip
    topic = DescribeProducersResponse.TopicResponse(name="t", partitions=[told])
    return DescribeProducersResponse(topics=[topic])


# ---- transactional ids


def test_the_ids_of_all_brokers_are_listed_by_name() -> None:
    cluster = Cluster({
        (1, ListTransactionsRequest): [listing("c:3")],
        (2, ListTransactionsRequest): [listing("b:2", "a:1")],
    })  # fmt: skip

    found = listed_transactions(links(cluster), ["Ongoing"], [1, 2, 3])

    assert [(each.transactional_id, each.coordinator, each.producer_id) for each in found] == [
        ("a", 2, 1), ("b", 2, 2), ("c", 1, 3),
    ]  # fmt: skip
    assert cluster.requests[0].state_filters == ["Ongoing"]
    assert cluster.requests[0].producer_id_filters == [1, 2, 3]


def test_a_coordinator_that_reads_its_log_is_waited_for_and_one_that_is_silent_is_known() -> None:
    loading = listing(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    cluster = Cluster({
        (1, ListTransactionsRequest): [loading, loading, listing("a:1")],
        (2, ListTransactionsRequest): [GONE],
    })  # fmt: skip

    found = listed_transactions(links(cluster))

    assert [each.transactional_id for each in found] == ["a"]
    assert (cluster.slept, cluster.silent) == (2, {2: GONE})


def test_a_coordinator_that_refuses_is_told() -> None:
    refusal = listing(code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    cluster = Cluster({(1, ListTransactionsRequest): [refusal]})

    with pytest.raises(KafkaError, match="the transactions of broker 1"):
        listed_transactions(links(cluster))


def test_an_id_is_described_by_its_coordinator() -> None:
    cluster = Cluster({
        (1, DescribeTransactionsRequest): [
            states(state("x", 0, ErrorCode.NOT_COORDINATOR)), states(state("x", 7, 0, 1, 0)),  # type: ignore[arg-type]
        ],
    })  # fmt: skip

    found = describe_transaction(links(cluster), "x")

    assert found is not None
    assert (found.coordinator, found.producer_id, found.start_ms) == (1, 7, 5)
    assert found.partitions == (P0, P1)
    assert found.is_open
    assert cluster.slept == 1


@pytest.mark.parametrize(
    ("is_named", "start_ms"), [("PrepareAbort", 5), ("CompleteCommit", None), ("Empty", None)]
)
def test_a_transaction_has_begun_while_partitions_wait_for_its_end(
    is_named: str, start_ms: int | None
) -> None:
    answer = states(state("x", is_named=is_named))
    cluster = Cluster({(1, DescribeTransactionsRequest): [answer]})

    found = describe_transaction(links(cluster), "x")

    assert found is not None
    assert (found.start_ms, found.is_open) == (start_ms, start_ms is not None)


def test_an_id_that_nobody_uses_is_none_and_one_that_may_not_be_seen_is_refused() -> None:
    unknown = states(state("x", 0, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND))
    hidden = states(state("x", 0, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    cluster = Cluster({(1, DescribeTransactionsRequest): [unknown, hidden]})

    assert describe_transaction(links(cluster), "x") is None
    with pytest.raises(KafkaError, match="transactional id x"):
        describe_transaction(links(cluster), "x")


def test_ids_that_were_listed_are_described_together_and_found_where_they_have_moved() -> None:
    cluster = Cluster({
        (2, DescribeTransactionsRequest): [states(
            state("a", 1), state("b", 2, ErrorCode.NOT_COORDINATOR),
            state("c", 3, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        )],
        (1, DescribeTransactionsRequest): [states(state("b", 2))],
    })  # fmt: skip
    listed = [
        ListedTransaction(transactional_id=name, coordinator=2, producer_id=0, state="Ongoing")
        for name in "abc"
    ]

    found = list(describe_listed(links(cluster), listed))

    assert [(each.transactional_id, each.coordinator) for each in found] == [("a", 2), ("b", 1)]
    assert cluster.asked["DescribeTransactionsRequest"] == [2, 1]


# ---- partitions


def test_producers_are_asked_of_the_brokers_named() -> None:
    cluster = Cluster({
        (1, DescribeProducersRequest): [producers(0, (7, 5, 1))],
        (2, DescribeProducersRequest): [producers(1, code=ErrorCode.NOT_LEADER_OR_FOLLOWER)],
    })  # fmt: skip

    found = producers_of(links(cluster), LEADERS)

    (producer,) = cast("list[Any]", found[P0])
    assert (producer.producer_id, producer.current_txn_start_offset) == (7, 5)
    refusal = found[P1]
    assert isinstance(refusal, KafkaError)
    assert refusal.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_partitions_are_asked_about_in_parts() -> None:
    cluster = Cluster({(1, DescribeProducersRequest): [producers(0)]})

    producers_of(links(cluster), {TopicPartition("t", number): 1 for number in range(1_001)})

    asked = [sum(len(t.partition_indexes) for t in each.topics) for each in cluster.requests]
    assert asked == [500, 500, 1]


def test_the_leader_is_asked_for_an_abort() -> None:
    result = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(error_code=47)
    topic = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(name="t", partitions=[result])
    answer = WriteTxnMarkersResponse(
        markers=[WriteTxnMarkersResponse.WritableTxnMarkerResult(producer_id=7, topics=[topic])]
    )
    cluster = Cluster({(2, WriteTxnMarkersRequest): [answer]})

    code = abort_transaction(
        links(cluster), 2,
        AbortMarker(place=P1, producer_id=7, producer_epoch=3, coordinator_epoch=4),
    )  # fmt: skip

    (marker,) = cluster.requests[0].markers
    assert code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 4)
    assert not marker.transaction_result
    assert [(each.name, each.partition_indexes) for each in marker.topics] == [("t", [1])]


# ---- hanging transactions


def searched(
    first: Any, again: Any | None = None, *, lists: Any = None, described: Any = None
) -> Cluster:
    """Partition 0 has what `first` tells, and later `again`; coordinator 2 knows of `lists`."""
    return Cluster({
        (1, DescribeProducersRequest): [first, again or first],
        (2, DescribeProducersRequest): [producers(1)],
        (1, ListTransactionsRequest): [listing()],
        (2, ListTransactionsRequest): [lists or listing()],
        (2, DescribeTransactionsRequest): [described],
    })  # fmt: skip


def search(cluster: Cluster) -> Search:
    return find_hanging(links(cluster), LEADERS, NOW_MS, IDLE_MS)


def offsets(cluster: Cluster) -> list[int]:
    found = search(cluster)
    assert found.refused == {}
    return [each.start_offset for each in found.hanging]


def test_what_no_coordinator_knows_hangs() -> None:
    cluster = searched(producers(0, (8, 6, 1), (7, 5, 1), (9, -1, 1)))

    found = search(cluster)

    assert found.hanging[0] == OpenTransaction(
        place=P0, producer_id=7, producer_epoch=3, coordinator_epoch=-1, start_offset=5,
        last_timestamp_ms=1,
    )  # fmt: skip
    assert [each.start_offset for each in found.hanging] == [5, 6]
    (asked,) = {tuple(sorted(each.producer_id_filters)) for each in cluster.requests
                if isinstance(each, ListTransactionsRequest)}  # fmt: skip
    assert asked == (7, 8)


def test_where_nothing_is_open_no_coordinator_is_asked() -> None:
    cluster = searched(producers(0, (8, -1, 0)))

    assert offsets(cluster) == []
    assert "ListTransactionsRequest" not in cluster.asked


@pytest.mark.parametrize(
    ("last_timestamp_ms", "hanging"),
    [
        (YOUNG_MS - 1, [5]),
        (YOUNG_MS, []),
        (NOW_MS + IDLE_MS, []),
        (NOW_MS + IDLE_MS + 1, [5]),  # no clock was that fast: it does not say when it was written
    ],
)
def test_what_was_written_to_lately_does_not_hang_and_is_told_apart(
    last_timestamp_ms: int, hanging: list[int]
) -> None:
    found = search(searched(producers(0, (7, 5, last_timestamp_ms))))

    assert [each.start_offset for each in found.hanging] == hanging
    assert [each.start_offset for each in found.unowned] == [5][len(hanging) :]


@pytest.mark.parametrize(
    ("described", "hanging"),
    [
        (states(state("x", 7, ErrorCode.NONE, 0)), []),
        (states(state("x", 7, ErrorCode.NONE, 0, is_named="PrepareCommit")), []),
        (states(state("x", 7, ErrorCode.NONE, 1)), [5]),  # of other partitions
        (states(state("x", 7, is_named="CompleteAbort")), [5]),
        (states(state("x", 7, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)), [5]),
    ],
)
def test_what_a_coordinator_will_end_does_not_hang(described: Any, hanging: list[int]) -> None:
    cluster = searched(producers(0, (7, 5, 1)), lists=listing("x:7"), described=described)

    assert offsets(cluster) == hanging


@pytest.mark.parametrize("again", [(7, -1, 1), (7, 9, 1)])
@pytest.mark.parametrize("last_timestamp_ms", [1, YOUNG_MS])
def test_what_was_ended_while_coordinators_were_asked_does_not_hang(
    again: tuple[int, int, int], last_timestamp_ms: int
) -> None:
    found = search(searched(producers(0, (7, 5, last_timestamp_ms)), producers(0, again)))

    assert found.hanging + found.unowned == []


def test_partitions_that_do_not_answer_are_told() -> None:
    cluster = searched(producers(0, code=ErrorCode.KAFKA_STORAGE_ERROR))
    cluster.answers[2, DescribeProducersRequest] = deque([GONE])

    found = search(cluster)

    refusal = found.refused[P0]
    assert refusal is not None
    assert (refusal.code, found.refused[P1], found.hanging) == (
        ErrorCode.KAFKA_STORAGE_ERROR, None, [],
    )  # fmt: skip


def test_nothing_hangs_in_a_partition_that_is_silent_the_second_time() -> None:
    cluster = searched(producers(0, (7, 5, 1)), GONE)

    found = search(cluster)

    assert (found.hanging, found.refused) == ([], {P0: None})


def test_nobody_is_said_to_hang_while_a_coordinator_is_silent() -> None:
    cluster = searched(producers(0, (7, 5, 1)), lists=GONE)

    with pytest.raises(ClientError, match="broker 2 does not say which transactions"):
        search(cluster)


def test_a_silent_coordinator_is_told_where_nothing_is_old_enough_to_hang() -> None:
    cluster = searched(producers(0, (7, 5, YOUNG_MS)), lists=GONE)

    found = search(cluster)

    assert (found.hanging, found.owned) == ([], [])
    assert "broker 2 does not say which transactions" in str(found.unknown_owners)


def test_nobody_is_said_to_hang_while_transactions_have_no_coordinator() -> None:
    cluster = searched(producers(0, (7, 5, 1)))
    cluster.state_leaders = {0: 1, 1: NO_LEADER}

    with pytest.raises(ClientError, match="__transaction_state-1 has no leader"):
        search(cluster)


@pytest.mark.parametrize("last_timestamp_ms", [1, YOUNG_MS])
def test_what_a_coordinator_will_end_is_told_once_with_the_partitions_where_it_is_open(
    last_timestamp_ms: int,
) -> None:
    cluster = searched(
        producers(0, (7, 5, last_timestamp_ms), (8, 6, last_timestamp_ms), (9, 7, YOUNG_MS)),
        lists=listing("y:8", "x:7"),
        described=states(
            state("y", 8, ErrorCode.NONE, 0, start_ms=6), state("x", 7, ErrorCode.NONE, 0, 1, 2)
        ),
    )
    cluster.answers[2, DescribeProducersRequest] = deque([producers(1, (7, 2, 1))])

    found = search(cluster)

    assert found.hanging == []
    assert [each.producer_id for each in found.unowned] == [9]
    assert [(each.owner.transactional_id, each.places) for each in found.owned] == [
        ("x", (P0, P1)), ("y", (P0,)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("is_named", "times_out_ms"), [("Ongoing", 60_005), ("PrepareCommit", None), ("Empty", None)]
)
def test_a_transaction_times_out_until_its_end_is_decided(
    is_named: str, times_out_ms: int | None
) -> None:
    answer = states(state("x", is_named=is_named))
    cluster = Cluster({(1, DescribeTransactionsRequest): [answer]})

    found = describe_transaction(links(cluster), "x")

    assert found is not None
    assert found.times_out_ms == times_out_ms


def test_the_owner_of_a_transaction_is_who_will_end_it() -> None:
    described = states(state("x", 7, ErrorCode.NONE, 0))
    cluster = searched(producers(0), lists=listing("x:7"), described=described)

    owner = owner_of(links(cluster), P0, 7)

    assert owner is not None
    assert owner.transactional_id == "x"
    assert owner_of(links(cluster), P1, 7) is None
