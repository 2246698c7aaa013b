"""RecordFetcher: reads partitions of one topic from where it is told, batch by batch.

Law: the records of a partition come in the order of its log, each once. A partition whose leader is
gone goes on where it ended, and keeps no other one waiting; a topic that was deleted and made again
is read from its start. The next answer is asked for before the last one is decoded.

Blocks in `batches`; owned by one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from kbroker.client.broker_link import BrokerLink, readable
from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks, TopicView
from kbroker.client.connection import ClientError
from kbroker.client.exit_code import ExitCode
from kbroker.client.fetched_batches import FetchedBatch, fetched_batches, records_of
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import NO_LEADER
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.record.default_record import Record

_ANSWER_BYTES = 8 * 1024 * 1024
_PARTITION_BYTES = 4 * 1024 * 1024
_WAIT_MS = 500
_SILENCE_S = 20.0
_PAUSE_S = 0.2
_PATIENCE_S = 10.0  # where nobody follows
_SAID_AFTER_S = 1.0  # an election takes no longer


class RecordFetcher:
    """Reads up to `ends`, or for ever where there are none."""

    def __init__(
        self,
        cluster: ClusterLinks,
        topic: TopicView,
        positions: Mapping[int, int],
        ends: Mapping[int, int] | None,
        tell: Callable[[str], None],
    ) -> None:
        """`positions`: the offset to begin at, by partition; `ends`: exclusive. `tell` gets a
        sentence when the topic or its brokers go away and when they are back.
        """
        self._cluster = cluster
        self._topic = topic
        self._positions = dict(positions)
        self._ends = ends
        self._tell = tell
        self._stuck: set[int] = set()  # partitions that cannot be read now
        self._reason = ""
        self._stuck_s = 0.0  # since when
        self._looked_s = 0.0  # when the leaders were looked up last
        self._is_told = False

    def batches(self) -> Iterator[tuple[int, list[Record]]]:
        """Partition and records of it, as they come; no list is empty.

        Raises ClientError where it cannot go on, KafkaError for records that cannot be read.
        """
        while wanted := self._wanted():
            if self._stuck:
                self._look()
            self._ask(wanted)
            busy = self._cluster.busy()
            if not busy:
                time.sleep(_PAUSE_S)
                continue
            ready = readable(busy, _PAUSE_S if self._stuck else _SILENCE_S)
            if not ready and not self._stuck:
                self._lose(busy[0], f"{busy[0].name} does not answer")
            for link in ready:
                found = self._take(link)
                self._ask(self._wanted())
                yield from records_of(found)

    def _wanted(self) -> list[int]:
        ends = self._ends
        return [
            partition
            for partition, position in self._positions.items()
            if ends is None or position < ends[partition]
        ]

    def _ask(self, wanted: Iterable[int]) -> None:
        """Have each leader that owes no answer read on."""
        by_leader: dict[int, list[int]] = {}
        for partition in wanted:
            by_leader.setdefault(self._topic.leaders.get(partition, NO_LEADER), []).append(
                partition
            )
        for leader, partitions in by_leader.items():
            if leader == NO_LEADER:
                self._stop(partitions, f"{self._topic.name}-{partitions[0]} has no leader")
                continue
            try:
                link = self._cluster.link(leader)
                if not link.in_flight:
                    link.send(self._request(partitions), partitions)
            except OSError as error:
                self._stop(partitions, str(error))

    def _request(self, partitions: list[int]) -> FetchRequest:
        wanted = [
            FetchRequest.FetchPartition(
                partition=partition,
                fetch_offset=self._positions[partition],
                partition_max_bytes=_PARTITION_BYTES,
            )
            for partition in partitions
        ]
        first = partitions[0]  # next time the others have the room of an answer before it
        self._positions[first] = self._positions.pop(first)
        return FetchRequest(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=_ANSWER_BYTES,
            topics=[FetchRequest.FetchTopic(topic=self._topic.name, partitions=wanted)],
        )

    def _take(self, link: BrokerLink) -> list[FetchedBatch]:
        """The batches of an answer; positions move beyond them."""
        try:
            _, answer = link.take()
        except OSError as error:
            self._lose(link, str(error))
            return []
        found: list[FetchedBatch] = []
        for topic in answer.responses:
            for data in topic.partitions:
                code = ErrorCode(data.error_code)
                if code == ErrorCode.NONE:
                    self._go_on(data.partition_index)
                    found += self._walk(data)
                elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._reset(data.partition_index)
                elif code.retriable and code != ErrorCode.CORRUPT_MESSAGE:
                    reason = f"{self._topic.name}-{data.partition_index}: {code.name}"
                    self._stop([data.partition_index], reason)
                else:
                    raise KafkaError(code, f"{self._topic.name}-{data.partition_index}")
        return found

    def _walk(self, data: FetchResponse.PartitionData) -> Iterator[FetchedBatch]:
        partition, view = data.partition_index, data.records
        if not isinstance(view, memoryview):
            return
        end = None if self._ends is None else self._ends[partition]
        for batch in fetched_batches(partition, view, self._positions[partition], end):
            self._positions[partition] = batch.header.next_offset
            yield batch

    def _reset(self, partition: int) -> None:
        """Go to the nearest offset that there is: retention, or an election, has moved the ends."""
        try:
            if self._look_up():
                return
            start = self._cluster.offsets(self._topic, [partition], EARLIEST)[partition]
            end = self._cluster.offsets(self._topic, [partition], LATEST)[partition]
        except (OSError, KafkaError) as error:
            self._stop([partition], str(error))
            return
        self._positions[partition] = min(max(self._positions[partition], start), end)

    # What stands in the way.

    def _lose(self, link: BrokerLink, reason: str) -> None:
        partitions = link.in_flight[0].context
        self._cluster.lose(link)
        self._stop(partitions, reason)

    def _stop(self, partitions: Iterable[int], reason: str) -> None:
        if not self._stuck:
            self._stuck_s, self._is_told = time.monotonic(), False
        self._stuck.update(partitions)
        self._reason = reason

    def _go_on(self, partition: int) -> None:
        if partition in self._stuck:
            self._stuck.discard(partition)
            if self._is_told and not self._stuck:
                self._tell(f"{self._topic.name} can be read again")

    def _look(self) -> None:
        """Look the leaders up, and say what is missing. ClientError where nobody would wait."""
        now_s = time.monotonic()
        if now_s - self._looked_s < _PAUSE_S:
            return
        self._looked_s = now_s
        try:
            self._look_up()
        except OSError as error:
            self._reason = f"no broker of {self._cluster.bootstrap} answers ({error})"
        stuck_s = time.monotonic() - self._stuck_s
        if self._ends is not None and stuck_s > _PATIENCE_S:
            raise ClientError(self._reason, ExitCode.CANNOT_CONNECT)
        if self._ends is None and not self._is_told and stuck_s > _SAID_AFTER_S:
            self._tell(f"{self._reason}; waiting")
            self._is_told = True

    def _look_up(self) -> bool:
        """Learn the leaders; whether the topic is another one now. Raises OSError."""
        view = self._cluster.topic(self._topic.name)
        if view.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._reason = f"the topic {view.name} was deleted"
            if self._ends is not None:
                raise ClientError(self._reason)
        if view.code != ErrorCode.NONE:
            return False
        is_another = view.topic_id != self._topic.topic_id
        self._topic = view
        if is_another:
            self._tell(f"the topic {view.name} was deleted and made again: reading from its start")
            self._positions = dict.fromkeys(self._positions, 0)
            self._is_told = False
        return is_another
