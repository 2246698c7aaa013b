"""Records are written in order and once, whatever brokers answer."""

from __future__ import annotations

from collections import deque
from typing import Any, cast

import pytest

from kbroker.client.broker_link import Asked, BrokerLink
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks, TopicView
from kbroker.client.record_sender import ALL, NOBODY, RecordSender, SendOptions
from kbroker.errors import ErrorCode, Trouble
from kbroker.protocol.messages.init_producer_id import InitProducerIdResponse
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.record.bulk_records import bodies_of_values, whole_body_of
from kbroker.record.compression import CODEC_IDS
from kbroker.record.default_record import Headers
from kbroker.record.packed_batch import PackedBatch
from kbroker.record.record_batch import BatchOptions, Record, build, read_header, records

LZ4 = BatchOptions(compression=CODEC_IDS["lz4"])
TOPIC = TopicView(name="t", code=ErrorCode.NONE, leaders={0: 1})


class FakeBroker:
    """A link and the broker behind it: answers with the codes it is told, else NONE."""

    def __init__(self) -> None:
        self.in_flight: deque[Asked] = deque()
        self._requests: deque[ProduceRequest] = deque()
        self.codes: list[ErrorCode] = []
        self.reasons: list[str] = []  # of records that are refused
        self.most_records = 1_000  # of a batch
        self.is_cut = False
        self.written: list[tuple[int, list[bytes | None]]] = []
        self.batches_sent = 0

    def send(self, request: ProduceRequest, context: Any, *, is_answered: bool) -> None:
        if is_answered:
            self.in_flight.append(Asked(type(request), 9, 0, context))
            self._requests.append(request)
        self.batches_sent += 1

    def take(self) -> tuple[Any, ProduceResponse]:
        if self.is_cut:
            raise ConnectionResetError("it was cut")
        context, request = self.in_flight.popleft().context, self._requests.popleft()
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        batch = bytes(request.topic_data[0].partition_data[0].records)
        if read_header(batch).record_count > self.most_records:
            code = ErrorCode.MESSAGE_TOO_LARGE
        if code == ErrorCode.NONE:
            found = [record.value for record in records(batch)]
            self.written.append((read_header(batch).base_sequence, found))
        data = ProduceResponse.PartitionProduceResponse(
            index=0,
            error_code=int(code),
            record_errors=[
                ProduceResponse.BatchIndexAndErrorMessage(batch_index_error_message=reason)
                for reason in self.reasons
            ],
            error_message=f"{len(self.reasons)} record errors in total" if self.reasons else None,
        )
        topic = ProduceResponse.TopicProduceResponse(name="t", partition_responses=[data])
        return context, ProduceResponse(responses=[topic])

    def mend(self) -> None:
        self.in_flight.clear()
        self._requests.clear()
        self.is_cut = False


class FakeCluster:
    """One broker that leads all."""

    def __init__(self) -> None:
        self.broker = FakeBroker()
        self.view = TOPIC
        self.looked_up = 0

    def link(self, node_id: int) -> FakeBroker:
        return self.broker

    def lose(self, link: FakeBroker) -> None:
        self.broker.mend()

    def topic(self, name: str) -> TopicView:
        self.looked_up += 1
        return self.view

    def ask_any(self, request: object) -> InitProducerIdResponse:
        return InitProducerIdResponse(producer_id=7, producer_epoch=0)


class Setting:
    """A sender, its broker, and the time."""

    def __init__(self, acks: int = ALL, headers: Headers | None = ()) -> None:
        self.cluster = FakeCluster()
        self.broker = self.cluster.broker
        self.now_s = 0.0
        options = SendOptions(acks=acks, headers=headers)
        cluster = cast(ClusterLinks, self.cluster)
        self.sender = RecordSender(cluster, TOPIC, options, lambda: self.now_s)

    def put(self, *values: bytes) -> None:
        """One batch."""
        self.sender.put(0, bodies_of_values(values), 0)
        self.sender.complete(0)

    def run(self) -> None:
        """Until all is written or refused."""
        while not self.sender.is_idle:
            self.now_s += 0.2
            self.sender.pump()
            while self.broker.in_flight:
                self.sender.take(cast(BrokerLink, self.broker))


def test_records_are_written_in_their_order() -> None:
    setting = Setting()

    setting.put(b"a", b"b")
    setting.put(b"c")
    setting.run()

    assert setting.broker.written == [(0, [b"a", b"b"]), (2, [b"c"])]
    assert (setting.sender.acknowledged, setting.sender.refusal) == (3, None)


def test_what_fails_for_a_while_is_sent_again_to_the_leader_of_then() -> None:
    setting = Setting()
    setting.broker.codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT]

    setting.put(b"a")
    setting.put(b"b")
    setting.run()

    assert setting.broker.written == [(0, [b"a"]), (1, [b"b"])]
    assert setting.cluster.looked_up == 2


def test_what_was_written_before_is_acknowledged() -> None:
    setting = Setting()
    setting.broker.codes = [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.DUPLICATE_SEQUENCE_NUMBER]

    setting.put(b"a")
    setting.run()

    assert setting.sender.acknowledged == 1


def test_one_refused_record_stops_no_other() -> None:
    setting = Setting()
    setting.put(b"known")
    setting.run()
    setting.broker.codes = [
        ErrorCode.MESSAGE_TOO_LARGE,  # of a and B
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,  # of c, which was in flight
        ErrorCode.NONE,  # of a
        ErrorCode.MESSAGE_TOO_LARGE,  # of B
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ]

    setting.put(b"a", b"B")
    setting.put(b"c")
    setting.run()

    assert setting.broker.written == [(0, [b"known"]), (1, [b"a"]), (2, [b"c"])]
    assert setting.sender.acknowledged == 3
    assert setting.sender.refusal is not None
    assert "max.message.bytes" in setting.sender.refusal


@pytest.mark.parametrize(
    ("code", "reason", "refusal"),
    [
        (
            ErrorCode.INVALID_RECORD,
            "Compacted topic cannot accept message without key in topic partition t-0.",
            "the topic is compacted, so each record needs a key (INVALID_RECORD)",
        ),
        (
            ErrorCode.INVALID_TIMESTAMP,
            "Timestamp 1 of message with offset 0 is out of range",
            "Timestamp 1 of message with offset 0 is out of range (INVALID_TIMESTAMP)",
        ),
        (
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            None,
            "only the brokers write to this topic (INVALID_TOPIC_EXCEPTION)",
        ),
    ],
)
def test_a_refused_record_is_told_with_its_own_reason(
    code: ErrorCode, reason: str | None, refusal: str
) -> None:
    setting = Setting()
    setting.broker.codes = [code]
    setting.broker.reasons = [reason] if reason else []

    setting.put(b"a")
    setting.run()

    assert setting.sender.refusal == refusal


def test_a_lost_link_loses_no_record() -> None:
    setting = Setting()
    setting.broker.is_cut = True

    setting.put(b"a")
    setting.run()

    assert setting.broker.written == [(0, [b"a"])]


@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT])
def test_after_half_a_minute_it_is_given_up_with_the_reason(code: ErrorCode) -> None:
    setting = Setting()
    setting.broker.codes = [code] * 1_000

    setting.put(b"a")
    with pytest.raises(ClientError, match=code.name) as given_up:
        setting.run()

    lacks_replicas = code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert given_up.value.trouble is (Trouble.NOT_ENOUGH_REPLICAS if lacks_replicas else None)

    assert 30 < setting.now_s < 31


def test_a_disk_that_takes_nothing_is_told_as_a_disk() -> None:
    setting = Setting()
    setting.broker.codes = [ErrorCode.KAFKA_STORAGE_ERROR] * 1_000

    setting.put(b"a")
    with pytest.raises(ClientError, match=r"a disk of its broker is full.* \(KAFKA_STORAGE_ERROR"):
        setting.run()


def test_a_partition_without_leader_is_waited_for() -> None:
    setting = Setting()
    setting.broker.codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    setting.cluster.view = TopicView(name="t", code=ErrorCode.NONE, leaders={0: -1})

    setting.put(b"a")
    with pytest.raises(ClientError, match="t-0 has no leader") as given_up:
        setting.run()

    assert given_up.value.trouble is Trouble.NO_LEADER


def test_nobody_acknowledges_where_nobody_is_asked_to() -> None:
    setting = Setting(acks=NOBODY)

    setting.put(b"a")
    setting.put(b"b")
    setting.run()

    assert (setting.broker.batches_sent, setting.sender.acknowledged) == (2, 2)


def test_full_batches_do_not_wait_for_more() -> None:
    setting = Setting()

    setting.sender.put(0, bodies_of_values([b"x" * 1_000] * 2_500), 0)

    assert setting.sender.batches == 2
    assert setting.sender.is_gathering


def test_a_packed_batch_goes_behind_what_was_gathered_and_in_two_where_it_is_too_large() -> None:
    setting = Setting(headers=None)
    data = build([Record(n, 7, None, b"v%d" % n) for n in range(4)], options=LZ4)
    setting.broker.codes = [ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE]

    setting.sender.put(0, [whole_body_of(Record(0, 0, None, b"before"))], 0)
    setting.sender.put_packed(0, PackedBatch(read_header(data), memoryview(data)), 0)
    setting.run()

    assert setting.broker.written == [(0, [b"before"]), (1, [b"v0", b"v1"]), (3, [b"v2", b"v3"])]
    assert setting.sender.acknowledged == 5


def test_what_was_sent_and_not_answered_when_time_was_up_may_be_written() -> None:
    setting = Setting()
    setting.put(b"a", b"b")
    setting.sender.pump()
    setting.now_s = 40.0  # as after a stop of the process

    setting.put(b"c")
    with pytest.raises(ClientError):
        setting.sender.pump()

    assert setting.sender.uncertain == 2


@pytest.mark.parametrize(
    ("code", "uncertain"),
    [(ErrorCode.NOT_ENOUGH_REPLICAS, 0), (ErrorCode.REQUEST_TIMED_OUT, 1)],
)
def test_a_broker_that_refuses_leaves_nothing_uncertain_and_one_that_is_slow_does(
    code: ErrorCode, uncertain: int
) -> None:
    setting = Setting()
    setting.broker.codes = [code] * 1_000

    setting.put(b"a")
    with pytest.raises(ClientError):
        setting.run()

    assert setting.sender.uncertain == uncertain


def test_a_record_whose_answer_got_lost_stays_uncertain_until_it_is_written() -> None:
    setting = Setting()
    setting.put(b"a")
    setting.sender.pump()
    setting.broker.is_cut = True
    setting.sender.take(cast(BrokerLink, setting.broker))
    lost = setting.sender.uncertain
    setting.run()

    assert (lost, setting.sender.uncertain) == (1, 0)


def test_records_that_fit_one_by_one_take_as_long_as_they_need() -> None:
    setting = Setting()
    setting.broker.most_records = 1  # of a batch: each turn writes one

    setting.put(*[b"%d" % n for n in range(400)])
    setting.run()

    assert setting.now_s > 30
    assert setting.sender.acknowledged == 400


def test_many_refused_records_end_with_the_refusal() -> None:
    setting = Setting()
    setting.broker.codes = [ErrorCode.MESSAGE_TOO_LARGE] * 1_000

    setting.put(*[b"%d" % n for n in range(400)])
    with pytest.raises(ClientError, match=r"max\.message\.bytes") as given_up:
        setting.run()

    assert given_up.value.trouble is None
    assert 30 < setting.now_s < 40
