"""Messages of a topic: from a place on, up to an end, those that fit a filter.

Law: a search has bounds (rows, bytes that it reads, seconds), and says which of them ended it, what
it skipped, and where to go on. Of a message it keeps what is shown, so that large ones take no
memory. Records of one partition are looked at in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from kbroker.client.client_error import ClientError
from kbroker.client.fetched_batches import record_lists
from kbroker.client.record_fetcher import Course, RecordFetcher
from kbroker.client.record_places import END, Kind, Place
from kbroker.client.topic_figures import Described, leaders_of
from kbroker.console.consoled_cluster import ConsoledCluster, Work
from kbroker.console.gaps import Gaps
from kbroker.console.kept_messages import KeptMessages, MessageRow, size_of
from kbroker.console.message_filter import EVERYTHING, MessageFilter
from kbroker.console.message_form import MessageForm
from kbroker.console.search_bounds import Stretch, bounds_of, newest_of
from kbroker.console.topic_lookup import check_partitions, topic_named
from kbroker.errors import KafkaError
from kbroker.model import TopicPartition
from kbroker.record.default_record import Record
from kbroker.wording import counted, named

MOST_ROWS: Final = 1_000
MOST_BYTES: Final = 512 * 1024 * 1024
SECONDS: Final = 10.0
_LOOKED_AT_ONCE = 100
_ANSWER_BYTES = 2 * 1024 * 1024
_JSON_BYTES = 1024 * 1024  # reading more in one go holds other threads for tens of ms
_NEWEST = Place(Kind.LAST, 50)


class Ended(StrEnum):
    """The bound that ended a search."""

    AT_END = "end"  # all was looked at
    ROWS = "rows"
    BYTES = "bytes"
    SECONDS = "seconds"
    TROUBLE = "trouble"  # that `gaps` names


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSearch:
    """The subject and the bounds of a search. No `partitions` means all; `starts` holds offsets to
    go on from, which win over `start`. `rows` is the most that are shown, up to `MOST_ROWS`: the
    first that fit, or, with `keeps_newest` and for a number of last messages, the last.
    `only_committed` leaves out records of open and aborted transactions. With `newest_offsets` no
    more than so many are looked at, those next to the end.
    """

    topic: str
    start: Place = _NEWEST
    end: Place = END
    starts: Mapping[int, int] = field(default_factory=dict)
    partitions: frozenset[int] = frozenset()
    wanted: MessageFilter = EVERYTHING
    key_decoder: str = "auto"
    value_decoder: str = "auto"
    rows: int = 50
    keeps_newest: bool = False
    only_committed: bool = True
    newest_offsets: int | None = None
    most_bytes: int = MOST_BYTES
    most_s: float = SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMessages:
    """The messages that were found, in the order of time. `next_offsets`: where to go on, by
    partition. `looked_at` counts messages, `fitting` those that fit, also if they are not shown,
    and `bytes` what keys, values and headers have. `skipped` counts the offsets from `starts` on
    that were not looked at, because of `newest_offsets` or because they are deleted.
    """

    rows: tuple[MessageRow, ...]
    ended: Ended
    next_offsets: Mapping[int, int]
    looked_at: int
    fitting: int
    bytes: int
    skipped: int
    gaps: tuple[str, ...]


async def messages(cluster: ConsoledCluster, search: MessageSearch) -> FoundMessages:
    """Look for messages. Raises ClientError, and ValueError for a decoder that there is not."""
    form = MessageForm(search.topic, search.key_decoder, search.value_decoder)
    return await cluster.ask(lambda work: _Search(work, search, form).run(), search.most_s)


class _Search:
    """One search at work, on its thread."""

    def __init__(self, work: Work, search: MessageSearch, form: MessageForm) -> None:
        self._work = work
        self._search = search
        self._form = form
        self._gaps = Gaps()
        self._kept = KeptMessages(
            form,
            min(max(search.rows, 1), MOST_ROWS),
            keeps_newest=search.keeps_newest
            or (search.start.kind is Kind.LAST and not search.starts),
        )
        self._looked_at = 0
        self._too_large = 0
        self._bytes = 0
        self._next: dict[TopicPartition, int] = {}

    def run(self) -> FoundMessages:
        """Look for messages, and return what was found."""
        search, links, gaps = self._search, self._work.links, self._gaps
        leaders = self._leaders(topic_named(links, search.topic))
        stretch = Stretch(
            start=search.start,
            starts=search.starts,
            end=search.end,
            only_committed=search.only_committed,
        )
        starts, ends = bounds_of(links, leaders, stretch, gaps)
        skipped = 0
        if search.newest_offsets is not None:
            starts = newest_of(starts, ends, search.newest_offsets)
            wanted = {p: search.starts.get(p.partition, at) for p, at in starts.items()}
            skipped = sum(max(at - wanted[p], 0) for p, at in starts.items())
        self._next = dict(starts)
        ended = self._read({p: at for p, at in starts.items() if at < ends[p]}, ends)
        if ended is Ended.AT_END:
            self._next |= {p: end for p, end in ends.items() if starts[p] < end}
        gaps.tell_silent(links.silent)
        if self._too_large:
            values = counted(self._too_large, "value")
            gaps.tell(f"{values} of more than a megabyte: too large to be looked into as JSON")
        return FoundMessages(
            rows=self._kept.rows(),
            ended=ended,
            next_offsets={p.partition: at for p, at in sorted(self._next.items())},
            looked_at=self._looked_at,
            fitting=self._kept.fitting,
            bytes=self._bytes,
            skipped=skipped,
            gaps=gaps.sentences(),
        )

    def _leaders(self, topic: Described) -> dict[TopicPartition, int]:
        """Return the leaders of the wanted partitions, and name those without one."""
        search = self._search
        check_partitions(topic, {*search.partitions, *search.starts})
        leaders = leaders_of([topic])
        places = [
            TopicPartition(search.topic, each.partition_index)
            for each in topic.partitions
            if not search.partitions or each.partition_index in search.partitions
        ]
        dark = sorted(place for place in places if place not in leaders)
        if dark:
            have = "has" if len(dark) == 1 else "have"
            self._gaps.tell(f"{named(dark)} {have} no leader: messages there are not shown")
        return {place: leaders[place] for place in places if place in leaders}

    def _read(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> Ended:
        links, gaps = self._work.links, self._gaps
        course = Course(
            starts=starts,
            ends={place: ends[place] for place in starts},
            only_committed=self._search.only_committed,
            tell_unreadable=gaps.tell,
            answer_bytes=_ANSWER_BYTES,
        )
        fetcher = RecordFetcher(links, [links.topic(self._search.topic)], course, gaps.tell)
        try:
            return self._look_along(fetcher)
        except (ClientError, KafkaError) as error:  # what was found is shown all the same
            gaps.tell(str(error))
            return Ended.TROUBLE

    def _look_along(self, fetcher: RecordFetcher) -> Ended:
        for batches in fetcher.answers():
            for batch in batches:
                for records in record_lists(batch, self._gaps.tell):
                    ended = self._look_at(batch.place, records)
                    if ended is not None:
                        return ended
        return Ended.AT_END

    def _look_at(self, place: TopicPartition, records: Iterable[Record]) -> Ended | None:
        """Keep the records that fit; return the bound that was reached, if one was."""
        kept, takes_all = self._kept, self._search.wanted.is_empty
        self._work.make_way()
        for record in records:
            self._looked_at += 1
            if not self._looked_at % _LOOKED_AT_ONCE:
                self._work.make_way()
            self._bytes += size_of(record)
            self._next[place] = record.offset + 1
            if takes_all or self._fits(record):
                kept.add(place, record)
                if kept.is_full:
                    return Ended.ROWS
            if self._bytes >= self._search.most_bytes:
                return Ended.BYTES
        return Ended.SECONDS if self._work.is_late else None

    def _fits(self, record: Record) -> bool:
        wanted = self._search.wanted
        if wanted.condition is not None and len(record.value or b"") > _JSON_BYTES:
            self._too_large += 1
            return False
        return wanted.fits(record, self._form)
