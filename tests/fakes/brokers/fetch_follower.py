"""Broker 1 as a follower of all partitions of one topic, that fetches in a session."""

from __future__ import annotations

from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.replication.reads.fetch_context import FetchContext
from kbroker.replication.reads.fetch_params import FetchParams
from tests.fakes.clusters.replication_cluster import ReplicationCluster, topic_id_of

BROKER_ID = 1
VERSION = 15


class FetchFollower:
    """Knows how far it is in each partition; `told` is what the last answer said of partitions:
    records, high watermark, log start, error.
    """

    def __init__(self, cluster: ReplicationCluster, partitions: int, topic: str = "t") -> None:
        self.cluster = cluster
        self.topic = topic
        self.offsets = dict.fromkeys(range(partitions), 0)
        self.broker_epoch = 7
        self.max_bytes = 1 << 20
        self.session_id = 0
        self.epoch = 0
        self.told: dict[int, tuple[int, int, int, int]] = {}
        self._unsaid = set(self.offsets)
        self._forgotten: list[int] = []
        self._waiting: tuple | None = None

    @property
    def is_waiting(self) -> bool:
        return self._waiting is not None and not self._waiting[1].done()

    def forget(self, partition: int) -> None:
        del self.offsets[partition]
        self._unsaid.discard(partition)
        self._forgotten.append(partition)

    def follow(self, partition: int, offset: int = 0) -> None:
        self.offsets[partition] = offset
        self._unsaid.add(partition)

    def begin_anew(self) -> None:
        """A session of its own accord: all partitions are named again."""
        self.session_id = self.epoch = 0
        self._unsaid = set(self.offsets)

    def fetch(self, wait_ms: int = 0) -> FetchFollower:
        """Ask; `finish` where the answer is to be waited for."""
        replicas = self.cluster.replicas
        context = FetchContext.of(
            replicas.fetch_sessions,
            self.request(),
            VERSION,
            {topic_id_of(self.topic): self.topic}.get,
            is_follower=True,
        )
        params = FetchParams(
            isolation=FetchIsolation.LOG_END,
            max_bytes=self.max_bytes,
            max_wait_ms=wait_ms,
            replica_id=BROKER_ID,
            replica_epoch=self.broker_epoch,
        )
        answers = replicas.fetches.fetch(params, context.asked_for, context)
        if isinstance(answers, list):
            self._take(context.response(answers))
        else:
            self._waiting = context, answers
        return self

    def finish(self) -> FetchFollower:
        """Take the answer that was waited for."""
        assert self._waiting is not None
        context, answers = self._waiting
        self._waiting = None
        self._take(context.response(answers.result()))
        return self

    def request(self) -> FetchRequest:
        """Return what it asks next; it names the partitions of which it has something to say."""
        partitions = [
            FetchRequest.FetchPartition(
                partition=partition,
                fetch_offset=self.offsets[partition],
                partition_max_bytes=1 << 20,
                log_start_offset=0,
            )
            for partition in sorted(self._unsaid)
        ]
        topic_id = topic_id_of(self.topic)
        request = FetchRequest(
            session_id=self.session_id,
            session_epoch=self.epoch,
            replica_state=FetchRequest.ReplicaState(
                replica_id=BROKER_ID, replica_epoch=self.broker_epoch
            ),
            topics=[FetchRequest.FetchTopic(topic_id=topic_id, partitions=partitions)]
            if partitions
            else [],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(topic_id=topic_id, partitions=self._forgotten)
            ]
            if self._forgotten
            else [],
        )
        self._unsaid, self._forgotten = set(), []
        return request

    def _take(self, response: FetchResponse) -> None:
        assert not response.error_code
        self.session_id, self.epoch = response.session_id, self.epoch + 1
        self.told = {}
        for topic in response.responses:
            for data in topic.partitions:
                records = self._append(data)
                self.told[data.partition_index] = (
                    records,
                    data.high_watermark,
                    data.log_start_offset,
                    data.error_code,
                )

    def _append(self, data: FetchResponse.PartitionData) -> int:
        partition = self.cluster.replicas.hosted.find((self.topic, data.partition_index))  # type: ignore[arg-type]
        if not data.records or partition is None:
            return 0
        before = self.offsets.get(data.partition_index)
        if before is None:
            return 0
        self.offsets[data.partition_index] = partition.log_end_offset
        self._unsaid.add(data.partition_index)
        return partition.log_end_offset - before
