"""ReplicaManager over real logs: what is appended is read back, also after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.apis import fetch, list_offsets, produce, write_txn_markers
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.errors import ErrorCode
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.manager.log_manager import LogManager
from kbroker.model import TRANSACTION_STATE_TOPIC, TopicPartition
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from kbroker.record.record_batch import TRANSACTIONAL_BIT, records
from tests.fakes.clusters.replication_cluster import ReplicationCluster, batch, topic_id_of
from tests.fakes.logs.verified_batches import verified
from tests.fakes.requests.api_context import ApiCaller
from tests.fakes.running.virtual_time import VirtualTime

TOPIC_SETTINGS = {
    "compacted": {"cleanup.policy": "compact"},
    "small": {"max.message.bytes": "100"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "segments": {"segment.bytes": "1000"},
    "tight": {"min.insync.replicas": "2"},
}


class BrokerOnDisk:
    def __init__(self, directory: Path) -> None:
        config = KafkaConfig.for_profile("dev")
        self.logs = LogManager(
            LogDirectories.lock(RealFileSystem(), [str(directory)]),
            lambda: config.log,
            lambda topic: TopicConfig.from_overrides(config, TOPIC_SETTINGS.get(topic, {})),
            RealFileSystem(),
            VirtualTime(),
        )
        self.logs.load("cluster", 0)
        self.cluster = ReplicationCluster(log_manager=self.logs)
        self.call = ApiCaller(self.cluster)

    def stop(self) -> None:
        self.cluster.replicas.shutdown()
        self.cluster.close()
        self.logs.shutdown()

    def produce(self, topic, view, *, version=8, acks=1):
        data = ProduceRequest.PartitionProduceData(index=0, records=view)
        named = ProduceRequest.TopicProduceData(
            name=topic, topic_id=topic_id_of(topic), partition_data=[data]
        )
        request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[named])
        return self.call(produce.handle, request, version).responses[0].partition_responses[0]

    def produce_in_transaction(self, topic, *, producer=(5, 1)):
        """As a producer whose transaction was checked before."""
        producer_id, epoch = producer
        view = batch(
            flags=TRANSACTIONAL_BIT,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
        )
        verified(self.cluster.replicas.hosted.get(TopicPartition(topic, 0)).log, view)
        (result,) = self.cluster.replicas.appends.append_records(
            [(TopicPartition(topic, 0), view)], -1, 1000
        ).results
        return result.error_code

    def abort_transaction(self, topic, *, producer=(5, 1), coordinator=3):
        producer_id, epoch = producer
        self.cluster.hear_of(TRANSACTION_STATE_TOPIC, leader_epoch=coordinator)
        named = WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=topic, partition_indexes=[0])
        marker = WriteTxnMarkersRequest.WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=False,
            coordinator_epoch=coordinator,
            topics=[named],
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        answer = self.call(write_txn_markers.handle, request, 1)
        return answer.markers[0].topics[0].partitions[0].error_code

    def fetch(self, topic, offset, **values):
        request = fetch_request(topic, offset, **values)
        return self.call(fetch.handle, request, 11).responses[0].partitions[0]

    def start(self, topic, offset, **values):
        """A fetch that waits."""
        return self.call.start(fetch.handle, fetch_request(topic, offset, **values), 11)

    def offset(self, topic, timestamp, version=7):
        partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        named = ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[partition])
        request = ListOffsetsRequest(replica_id=-1, topics=[named])
        return self.call(list_offsets.handle, request, version).topics[0].partitions[0]


def fetch_request(topic, offset, **values) -> FetchRequest:
    partition = FetchRequest.FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20
    )
    named = FetchRequest.FetchTopic(topic=topic, partitions=[partition])
    return FetchRequest(**{"min_bytes": 1, "max_bytes": 1 << 20, "topics": [named], **values})


@pytest.fixture
def broker(tmp_path) -> Iterator[BrokerOnDisk]:
    broker = BrokerOnDisk(tmp_path)
    yield broker
    broker.stop()


def test_what_is_produced_is_fetched_with_its_offset_and_leader_epoch(broker):
    broker.cluster.lead("t", leader_epoch=3)
    broker.produce("t", batch(b"a", b"b"))
    answer = broker.produce("t", batch(b"c", partition_leader_epoch=9))

    data = broker.fetch("t", 2)

    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (0, 2, 0)
    stored = data.records.read()
    assert [(r.offset, r.value) for r in records(stored)] == [(2, b"c")]
    assert stored[12:16] == (3).to_bytes(4, "big")
    assert (data.high_watermark, data.last_stable_offset) == (3, 3)


def test_a_fetch_from_the_middle_of_a_batch_starts_with_that_batch(broker):
    broker.cluster.lead("t")
    broker.produce("t", batch(*[b"v"] * 5))
    broker.produce("t", batch(*[b"v"] * 5))

    data = broker.fetch("t", 7)

    assert next(iter(records(data.records.read()))).offset == 5


@pytest.mark.parametrize("offset", [-1, 2])
def test_offsets_outside_the_log_are_out_of_range(broker, offset):
    broker.cluster.lead("t")
    broker.produce("t", batch(b"a"))

    assert broker.fetch("t", offset).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_waiting_fetch_reads_what_is_appended(broker):
    broker.cluster.lead("t")
    partition = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        topics=[FetchRequest.FetchTopic(topic="t", partitions=[partition])],
    )
    answer = broker.call.start(fetch.handle, request, 11)

    broker.produce("t", batch(b"a"))
    response = broker.cluster.loop.run_until_complete(answer)

    assert b"a" in response.responses[0].partitions[0].records.read()


def test_a_fetch_in_an_older_segment_does_not_wait_for_more(broker):
    """The next one has it."""
    broker.cluster.lead("segments")
    for _ in range(4):
        broker.produce("segments", batch(b"v" * 300))

    older = broker.fetch("segments", 0, max_wait_ms=10**9, min_bytes=10**6)

    assert len(older.records) == 2 * len(batch(b"v" * 300))


def test_a_fetch_in_the_last_segment_waits_for_more(broker):
    broker.cluster.lead("segments")
    for _ in range(3):
        broker.produce("segments", batch(b"v" * 300))
    answer = broker.start("segments", 2, max_wait_ms=10**9, min_bytes=500)

    broker.produce("segments", batch(b"w" * 300))
    response = broker.cluster.loop.run_until_complete(answer)

    assert len(response.responses[0].partitions[0].records) == 2 * len(batch(b"w" * 300))


def test_an_answer_goes_across_the_restart(tmp_path):
    before = BrokerOnDisk(tmp_path)
    before.cluster.lead("t")
    before.produce("t", batch(b"old"))
    before.stop()
    broker = BrokerOnDisk(tmp_path)
    broker.cluster.lead("t")
    broker.produce("t", batch(b"new"))

    answer = broker.fetch("t", 0, max_wait_ms=10**9, min_bytes=100)
    broker.stop()

    assert len(answer.records) == 2 * len(batch(b"new"))


def changed(position: int, value: int) -> memoryview:
    view = batch(b"a")
    view[position] = value
    return view


@pytest.mark.parametrize(
    ("view", "code", "log_start_offset"),
    [
        (memoryview(bytearray()), ErrorCode.INVALID_RECORD, -1),
        (memoryview(bytearray(b"\xff" * 20)), ErrorCode.CORRUPT_MESSAGE, -1),
        (batch(b"a")[:-5], ErrorCode.INVALID_RECORD, -1),
        (memoryview(bytearray(bytes(batch(b"a")) * 2)), ErrorCode.INVALID_RECORD, -1),
        (changed(16, 3), ErrorCode.CORRUPT_MESSAGE, -1),
        (changed(16, 1), ErrorCode.INVALID_RECORD, -1),
        (changed(17, 0), ErrorCode.CORRUPT_MESSAGE, -1),
        (changed(7, 77), ErrorCode.INVALID_RECORD, 0),
        (batch(b"a", flags=0x20), ErrorCode.INVALID_RECORD, 0),
        (batch(b"a", producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD, 0),
    ],
)
def test_bad_records_have_kafkas_code_and_log_start_offset(broker, view, code, log_start_offset):
    broker.cluster.lead("t")

    answer = broker.produce("t", view)

    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert answer.log_start_offset == log_start_offset


def test_a_keyless_record_of_a_compacted_topic_is_named(broker):
    broker.cluster.lead("compacted")
    reason = "Compacted topic cannot accept message without key in topic partition compacted-0"

    answer = broker.produce("compacted", batch(b"a"))

    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.INVALID_RECORD, 0)
    named = [(e.batch_index, e.batch_index_error_message) for e in answer.record_errors]
    assert named == [(0, reason)]
    assert reason in answer.error_message


def test_a_batch_above_the_topics_limit_is_too_large(broker):
    broker.cluster.lead("small")

    answer = broker.produce("small", batch(b"a" * 200))

    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
    assert answer.error_message is None


def test_the_brokers_time_is_told_where_the_topic_wants_it(broker):
    broker.cluster.lead("stamped")
    broker.cluster.lead("t")

    assert broker.produce("stamped", batch(b"a")).log_append_time_ms > 0
    assert broker.produce("t", batch(b"a")).log_append_time_ms == -1


def test_min_insync_replicas_of_a_single_replica_topic_is_no_obstacle(broker):
    broker.cluster.lead("tight")

    assert broker.produce("tight", batch(b"a"), acks=-1).error_code == 0


def test_too_few_in_sync_replicas_refuse_acks_all_and_hold_the_high_watermark(broker):
    broker.cluster.lead("tight", isr=(0,), replicas=(0, 1))

    refused = broker.produce("tight", batch(b"a"), acks=-1)
    accepted = broker.produce("tight", batch(b"a"), acks=1)

    assert (refused.error_code, refused.log_start_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, 0)
    assert accepted.error_code == 0
    assert broker.fetch("tight", 0).high_watermark == 0


def test_a_duplicate_is_answered_with_its_old_offset(broker):
    broker.cluster.lead("t")
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    first = broker.produce("t", batch(b"a", **fields))

    again = broker.produce("t", batch(b"a", **fields))

    assert (first.base_offset, again.base_offset, again.error_code) == (0, 0, 0)
    assert first.log_append_time_ms == -1
    assert again.log_append_time_ms > 0


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, (3, -1, 0)),
        (-2, (0, -1, 0)),
        (-3, (1, 3000, 0)),
        (2000, (1, 3000, 0)),
        (9999, (-1, -1, -1)),
    ],
)
def test_offsets_are_found_by_time(broker, timestamp, expected):
    broker.cluster.lead("t")
    for at_ms in (1000, 3000, 2000):
        broker.produce("t", batch(b"v", timestamp=at_ms))

    found = broker.offset("t", timestamp)

    assert (found.offset, found.timestamp, found.leader_epoch) == expected


def test_version_0_lists_the_end_and_the_start(broker):
    broker.cluster.lead("t")
    broker.produce("t", batch(b"a", b"b"))
    partition = ListOffsetsRequest.ListOffsetsPartition(timestamp=-1, max_num_offsets=2)
    named = ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[partition])

    response = broker.call(
        list_offsets.handle, ListOffsetsRequest(replica_id=-1, topics=[named]), 0
    )

    assert response.topics[0].partitions[0].old_style_offsets == [2, 0]


def test_a_restart_keeps_records_high_watermark_and_epochs(tmp_path):
    first = BrokerOnDisk(tmp_path)
    first.cluster.lead("t", leader_epoch=1)
    first.produce("t", batch(b"a", b"b"))
    first.stop()

    second = BrokerOnDisk(tmp_path)
    partition = second.cluster.lead("t", leader_epoch=1, isr=(0, 1), replicas=(0, 1))
    data = second.fetch("t", 0)
    entries = list(partition.log.leader_epoch_cache.entries)
    second.stop()

    assert (data.high_watermark, [r.value for r in records(data.records.read())]) == (
        2,
        [b"a", b"b"],
    )
    assert entries == [(1, 0)]


def test_a_marker_ends_what_is_unstable(broker):
    broker.cluster.lead("t")
    assert broker.produce_in_transaction("t") == 0
    before = broker.fetch("t", 0, isolation_level=1)
    assert (before.last_stable_offset, before.high_watermark) == (0, 1)

    assert broker.abort_transaction("t") == 0

    after = broker.fetch("t", 0, isolation_level=1)
    assert (after.last_stable_offset, after.high_watermark) == (2, 2)
    assert [(a.producer_id, a.first_offset) for a in after.aborted_transactions] == [(5, 0)]


def test_markers_of_former_coordinators_and_producers_are_refused(broker):
    broker.cluster.lead("t")
    broker.produce_in_transaction("t", producer=(5, 4))

    fenced = ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.abort_transaction("t", producer=(5, 3)) == fenced
    assert broker.abort_transaction("t", producer=(5, 4), coordinator=7) == 0
    former = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert broker.abort_transaction("t", producer=(5, 4), coordinator=6) == former
    assert broker.abort_transaction("t", producer=(5, 4), coordinator=7) == 0
    assert broker.abort_transaction("t", producer=(5, 5), coordinator=8) == 0
    assert broker.fetch("t", 0, isolation_level=1).last_stable_offset == 4
