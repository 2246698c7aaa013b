"""One message, opened: key, value and headers as far as a page can hold them, and the bytes."""

from __future__ import annotations

from dataclasses import dataclass

from kbroker.client.cluster_links import EARLIEST, LATEST
from kbroker.client.record_fetcher import Course, RecordFetcher
from kbroker.client.topic_figures import leaders_of, offsets_at
from kbroker.console.consoled_cluster import ConsoledCluster, Work
from kbroker.console.gaps import Gaps
from kbroker.console.kept_messages import MessageRow, message_row
from kbroker.console.message_form import MessageForm
from kbroker.console.shown_values import OPEN_BYTES, ShownValue
from kbroker.console.topic_lookup import NotFoundError, check_partitions, topic_named
from kbroker.model import TopicPartition
from kbroker.record.default_record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedMessage:
    """A message: `row` as in a list, `key` and `value` up to `OPEN_BYTES` of each, and the
    `record` itself.
    """

    row: MessageRow
    key: ShownValue
    value: ShownValue
    record: Record
    gaps: tuple[str, ...]


async def message(
    cluster: ConsoledCluster,
    place: TopicPartition,
    offset: int,
    key_decoder: str = "auto",
    value_decoder: str = "auto",
) -> OpenedMessage:
    """Open one message, also one of an aborted transaction.

    Raises NotFoundError if there is none at this offset, ClientError, and ValueError for a decoder
    that there is not.
    """
    form = MessageForm(place.topic, key_decoder, value_decoder)
    return await cluster.ask(lambda work: _message(work, place, offset, form))


def _message(work: Work, place: TopicPartition, offset: int, form: MessageForm) -> OpenedMessage:
    links, gaps = work.links, Gaps()
    topic = topic_named(links, place.topic)
    check_partitions(topic, [place.partition])
    leaders = {p: leader for p, leader in leaders_of([topic]).items() if p == place}
    first = offsets_at(links, leaders, EARLIEST).get(place)
    end = offsets_at(links, leaders, LATEST).get(place)
    if first is None or end is None:
        raise NotFoundError(f"{place} has no leader that answers: its messages cannot be read now")
    if not first <= offset < end:
        raise NotFoundError(f"{place} has no offset {offset}: it has {first} to {end - 1}")
    course = Course(
        starts={place: offset},
        ends={place: offset + 1},
        tell_unreadable=gaps.tell,
        answer_bytes=OPEN_BYTES,
    )
    fetcher = RecordFetcher(links, [links.topic(place.topic)], course, gaps.tell)
    for _, records in fetcher.batches():
        for record in records:
            key, value = form.shown(record, OPEN_BYTES)
            return OpenedMessage(
                row=message_row(place, record, form),
                key=key,
                value=value,
                record=record,
                gaps=gaps.sentences(),
            )
    said = gaps.sentences()
    reason = said[0] if said else "it was compacted, or it is a marker of a transaction"
    raise NotFoundError(f"{place} has no message at offset {offset}: {reason}")
