"""RecordFetcher: reads partitions of topics along a course, batch by batch.

Law: the records of a partition come in the order of its log, each once. A partition whose leader is
gone does not hold up the others, because a reader of many partitions must not stop for one, and
goes on where it ended. A topic that was deleted and created again is read from its start if the
course has no ends. The next answer is asked for before the last one is decoded.

Blocks in `answers` and `batches`; owned by one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from kbroker.client.broker_link import BrokerLink, readable
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks, TopicView
from kbroker.client.exit_code import ExitCode
from kbroker.client.fetch_troubles import OpenWaits, Troubles
from kbroker.client.fetched_batches import (
    AbortedTransactions,
    FetchedBatch,
    fetched_batches,
    records_of,
)
from kbroker.client.topic_rows import by_topic
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import NO_LEADER, TopicPartition
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.record.default_record import Record

_ANSWER_BYTES = 8 * 1024 * 1024
_WAIT_MS = 500
_SILENCE_S = 20.0
_PAUSE_S = 0.2
_FIND_S = 2.0
_PATIENCE_S = 30.0  # of a course with ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """Offsets to read from, by partition, and to read up to (exclusive; None: for ever).

    `only_committed`: records of open and aborted transactions are left out; the ends are then those
    of `ClusterLinks.offsets` with the same option.

    `find` returns the topics to be read whole, so that new topics and partitions are read too;
    None: only the partitions with a start are read.

    `tell_held` gets, once for each open transaction at which the reader has waited for a while, its
    partition and offset.

    `on_gap` gets a partition, the offset that it no longer has, and the nearest that it has, before
    that is read; an exception that it raises ends the reading.

    `answer_bytes`: the most that an answer has, but for a first batch that is larger.

    `tell_unreadable` gets a sentence for offsets whose records cannot be read, and the reading goes
    on after them; None: it ends there.
    """

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int] | None = None
    only_committed: bool = False
    find: Callable[[], Iterable[TopicView]] | None = None
    tell_held: Callable[[Mapping[TopicPartition, int]], None] | None = None
    on_gap: Callable[[TopicPartition, int, int], None] = lambda _place, _was, _now: None
    tell_unreadable: Callable[[str], None] | None = None
    answer_bytes: int = _ANSWER_BYTES


class RecordFetcher:
    """Reads along a course; owned by one thread."""

    def __init__(
        self,
        cluster: ClusterLinks,
        topics: Iterable[TopicView],
        course: Course,
        tell: Callable[[str], None],
    ) -> None:
        """`tell` gets a sentence when a topic or its brokers go away and when they are back."""
        self._cluster = cluster
        self._topics = {view.name: view for view in topics}
        self._positions = dict(course.starts)
        self._ends = course.ends
        self._only_committed = course.only_committed
        self._find = course.find
        self._tell_held = course.tell_held
        self._on_gap = course.on_gap
        self._tell_unreadable = course.tell_unreadable
        self._answer_bytes = course.answer_bytes
        self._damage: dict[TopicPartition, int] = {}  # offset from which on nothing is served
        self._open_waits = OpenWaits()
        self._tell = tell
        self._troubles = Troubles(tell)
        self._paused: dict[TopicPartition, float] = {}  # until when they are not asked for
        self._looked_s = 0.0  # when the leaders were looked up last
        self._found_s = 0.0  # when topics were looked for last

    def batches(self) -> Iterator[tuple[TopicPartition, list[Record]]]:
        """Yield partitions with records as they come; no list is empty. Raises as `answers`."""
        for found in self.answers():
            yield from records_of(found, self._tell_unreadable)

    def answers(self) -> Iterator[list[FetchedBatch]]:
        """Yield the batches of each answer, as they come.

        Raises ClientError if the reading cannot go on, KafkaError for unreadable records.
        """
        while self._wanted():
            if self._troubles:
                self._look()
            if self._find is not None:
                self._find_more(self._find)
            self._ask(self._due())
            busy = self._cluster.busy()
            if not busy:
                time.sleep(_PAUSE_S)
                continue
            ready = readable(busy, _PAUSE_S if self._troubles else _SILENCE_S)
            if not ready and not self._troubles:
                self._lose(busy[0], f"{busy[0].name} does not answer")
            for link in ready:
                found = self._take(link)
                self._troubles.say_what_is_back()
                self._ask(self._due())
                yield found

    def _wanted(self) -> list[TopicPartition]:
        ends = self._ends
        return [
            place
            for place, position in self._positions.items()
            if ends is None or position < ends[place]
        ]

    def _due(self) -> list[TopicPartition]:
        """List the partitions that are wanted, except those refused a moment ago."""
        now_s = time.monotonic()
        return [place for place in self._wanted() if self._paused.get(place, 0.0) <= now_s]

    def _ask(self, wanted: Iterable[TopicPartition]) -> None:
        """Have each leader that owes no answer read on."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for place in wanted:
            leader = self._topics[place.topic].leaders.get(place.partition, NO_LEADER)
            by_leader.setdefault(leader, []).append(place)
        for leader, places in by_leader.items():
            if leader == NO_LEADER:
                self._stop(places, f"{places[0]} has no leader")
                continue
            try:
                link = self._cluster.link(leader)
                if not link.in_flight:
                    link.send(self._request(places), places)
            except OSError as error:
                self._stop(places, str(error))

    def _request(self, places: list[TopicPartition]) -> FetchRequest:
        rows = {
            place: FetchRequest.FetchPartition(
                partition=place.partition,
                fetch_offset=self._positions[place],
                partition_max_bytes=self._answer_bytes // 2,
            )
            for place in places
        }
        first = places[0]  # next time it comes last, so that the others get room in the answer
        self._positions[first] = self._positions.pop(first)
        return FetchRequest(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=self._answer_bytes,
            isolation_level=int(self._only_committed),
            topics=[
                FetchRequest.FetchTopic(topic=name, partitions=wanted)
                for name, wanted in by_topic(rows).items()
            ],
        )

    def _take(self, link: BrokerLink) -> list[FetchedBatch]:
        """Take an answer and return its batches; positions move beyond them."""
        try:
            places, answer = link.take()
        except OSError as error:
            self._lose(link, str(error))
            return []
        if answer.error_code:
            self._stop(places, ErrorCode(answer.error_code).name)
        found: list[FetchedBatch] = []
        for topic in answer.responses:
            for data in topic.partitions:
                place = TopicPartition(topic.topic, data.partition_index)
                code = ErrorCode(data.error_code)
                if place not in self._positions:
                    continue  # it went while the answer was on its way
                if code == ErrorCode.NONE:
                    self._troubles.end(place)
                    self._end_damage(place)
                    found += self._walk(place, data)
                elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._reset(place)
                elif code == ErrorCode.CORRUPT_MESSAGE:
                    self._pass_damage(place)
                elif code.retriable:
                    self._stop([place], f"{place}: {code.name}")
                else:
                    raise KafkaError(code, str(place))
        self._tell_open_waits(answer)
        return found

    def _tell_open_waits(self, answer: FetchResponse) -> None:
        if self._tell_held is None or not self._only_committed:
            return
        now_s = time.monotonic()
        held = {
            place: data.last_stable_offset
            for topic in answer.responses
            for data in topic.partitions
            for place in [TopicPartition(topic.topic, data.partition_index)]
            if data.error_code == ErrorCode.NONE and place in self._positions
            if self._open_waits.is_news(place, self._positions[place], data, now_s)
        }
        if held:
            self._tell_held(held)

    def _walk(
        self, place: TopicPartition, data: FetchResponse.PartitionData
    ) -> Iterator[FetchedBatch]:
        view = data.records
        if not isinstance(view, memoryview):
            return
        end = None if self._ends is None else self._ends[place]
        aborted = AbortedTransactions(
            (entry.producer_id, entry.first_offset) for entry in data.aborted_transactions or ()
        )
        try:
            for batch in fetched_batches(place, view, self._positions[place], end):
                self._positions[place] = batch.header.next_offset
                if not aborted.hides(batch.header):
                    yield batch
        except KafkaError as error:
            reason = f"{place} cannot be read at offset {self._positions[place]}: {error.reason}"
            raise KafkaError(error.code, reason) from error

    def _reset(self, place: TopicPartition) -> None:
        """Go to the nearest offset: retention, or an election, has moved the ends."""
        try:
            if self._look_up(place.topic):
                return
        except OSError as error:
            self._stop([place], str(error))
            return
        number, view = [place.partition], self._topics[place.topic]
        ask = partial(self._cluster.offsets, view, number, awaits_successor=False)
        try:
            start, end = (ask(moment)[place.partition] for moment in (EARLIEST, LATEST))
        except (OSError, KafkaError, ClientError) as error:
            self._stop([place], str(error))
            return
        was = self._positions[place]
        self._positions[place] = min(max(was, start), end)
        self._on_gap(place, was, self._positions[place])
        self._tell(f"{place} has no offset {was} any more: reading from {self._positions[place]}")

    # Obstacles.

    def _pass_damage(self, place: TopicPartition) -> None:
        """Try one offset further: only the broker's log says where its damaged batch ends."""
        position = self._positions[place]
        if self._tell_unreadable is None:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"{place} has a damaged batch at offset {position}, which its broker does not "
                "serve; the broker's log says from which offset on it can be read again",
            )
        self._damage.setdefault(place, position)
        self._positions[place] = position + 1
        if self._ends is not None and position + 1 >= self._ends[place]:
            self._end_damage(place)

    def _end_damage(self, place: TopicPartition) -> None:
        first = self._damage.pop(place, None)
        if first is not None and self._tell_unreadable is not None:
            last = self._positions[place] - 1
            self._tell_unreadable(
                f"{place}: the broker does not serve offsets {first} to {last}, which are in a "
                "damaged batch"
            )

    def _lose(self, link: BrokerLink, reason: str) -> None:
        places = link.in_flight[0].context
        self._cluster.lose(link)
        self._stop(places, reason)

    def _stop(self, places: Iterable[TopicPartition], reason: str) -> None:
        read = [place for place in places if place in self._positions]
        now_s = time.monotonic()
        self._troubles.add(read, reason, now_s)
        self._paused.update(dict.fromkeys(read, now_s + _PAUSE_S))

    def _look(self) -> None:
        """Look up the leaders. ClientError if a course with ends has waited for too long."""
        now_s = time.monotonic()
        if now_s - self._looked_s < _PAUSE_S:
            return
        self._looked_s = now_s
        for topic in self._troubles.topics():
            try:
                self._look_up(topic)
            except OSError as error:
                reason = f"no broker of {self._cluster.bootstrap} answers ({error})"
                self._troubles.explain(topic, reason)
                break  # the others neither
        self._troubles.say(now_s)
        if self._ends is not None:
            reason, stuck_s = self._troubles.longest(now_s)
            if stuck_s > _PATIENCE_S:
                raise ClientError(reason, ExitCode.CANNOT_CONNECT)

    def _look_up(self, topic: str) -> bool:
        """Learn the leaders; return whether the topic is another one now. Raises OSError."""
        view = self._cluster.topic(topic)
        if view.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            reason = f"the topic {topic} was deleted"
            self._troubles.explain(topic, reason)
            if self._ends is not None:
                raise ClientError(reason)
        if view.code != ErrorCode.NONE:
            return False
        return self._adopt(view)

    def _adopt(self, view: TopicView) -> bool:
        """Take a topic as it is now; return whether it is another one under the same name, which
        is a ClientError for a course with ends.
        """
        known = self._topics.get(view.name)
        self._topics[view.name] = view
        if known is None or known.topic_id == view.topic_id:
            return False
        reason = f"the topic {view.name} was deleted and created again"
        if self._ends is not None:  # they were those of the topic before
            raise ClientError(reason)
        self._tell(f"{reason}: reading from its start")
        self._troubles.say_again(view.name)
        for place in [place for place in self._positions if place.topic == view.name]:
            self._positions[place] = 0
            if self._find is not None and place.partition not in view.leaders:
                del self._positions[place]
                self._troubles.end(place)
        return True

    def _find_more(self, find: Callable[[], Iterable[TopicView]]) -> None:
        """Add partitions and topics that were created since, to be read from their start."""
        now_s = time.monotonic()
        if now_s - self._found_s < _FIND_S:
            return
        self._found_s = now_s
        try:
            views = list(find())
        except OSError:
            return  # the next request to a leader says so
        for view in views:
            if view.code == ErrorCode.NONE:
                self._adopt(view)
                for number in view.leaders:
                    self._positions.setdefault(TopicPartition(view.name, number), 0)
