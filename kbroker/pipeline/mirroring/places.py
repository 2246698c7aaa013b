"""Where a mirror is in a partition of the source, and where it goes on. Pure.

Law: what would lose records, or mix those of two topics, is refused with a sentence, and done only
if the user asked for it (`allows_loss`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

from kbroker.client.client_error import ClientError
from kbroker.client.transactional_producer import Position
from kbroker.errors import Trouble
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError

NO_EPOCH = -1


class PlaceNote(NamedTuple):
    """The note beside a committed offset: the ids of the topics (empty if a broker knows none), and
    the leader epoch of the source's last batch before it.
    """

    source_topic: str = ""
    target_topic: str = ""
    leader_epoch: int = NO_EPOCH

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Parse the metadata of a committed offset; an empty note if somebody else wrote it."""
        parts = text.split(",")
        if len(parts) != 3 or not parts[2].lstrip("-").isdecimal():
            return cls()
        return cls(parts[0], parts[1], int(parts[2]))

    def __str__(self) -> str:
        return f"{self.source_topic},{self.target_topic},{self.leader_epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePartition:
    """A partition as it was when a round began. Only what was committed by then is copied."""

    partition: TopicPartition
    topic_id: str
    start_offset: int
    stable_offset: int  # exclusive: where the first open transaction begins, or the end
    end_offset: int
    epoch_end_offset: int | None = None  # of the epoch in the note of the place, if known


class Beginning(NamedTuple):
    """Where to read on; the offset map is whole from `covered_offset` on; notes for a person."""

    offset: int
    covered_offset: int
    notes: tuple[str, ...] = ()


class RoundOverError(ClientError):
    """The clusters have changed, or another mirror is at work: the next round looks again."""


class UnreadableSourceError(PipelineError):
    """Records of the source cannot be read, so they cannot be marked and copied."""

    def __init__(self, partition: TopicPartition, what: str) -> None:
        reason = what.removeprefix(f"{partition}: ")  # the sentence names it anyway
        super().__init__(f"{reason}: --allow-loss leaves it out", trouble=Trouble.ARCHIVE)


def beginning(
    source: SourcePartition, target_topic: str, position: Position, *, allows_loss: bool
) -> Beginning:
    """Return where a mirror with this position goes on. Raises PipelineError if it must not."""
    start = Beginning(source.start_offset, source.start_offset)
    if position.offset < 0:
        return start
    note, partition = PlaceNote.parsed(position.metadata), source.partition
    if is_another(note.target_topic, target_topic):
        return start._replace(
            notes=(f"{partition} was created again in the target: it is copied from its start",)
        )
    if is_another(note.source_topic, source.topic_id):
        reason = (
            f"topic {partition.topic} was deleted and created again in the source: it has the id "
            f"{source.topic_id}, and {note.source_topic} was copied"
        )
        _refuse_loss(reason, "copies the new one behind the old one", allows_loss=allows_loss)
        return start._replace(notes=(f"{reason}; {partition} is copied from its start",))
    if position.offset < source.start_offset:
        last = source.start_offset - 1
        reason = f"offsets {position.offset} to {last} of {partition} are gone from the source"
        _refuse_loss(reason, "leaves them out", allows_loss=allows_loss)
        return Beginning(source.start_offset, position.offset, (f"{reason}, and left out",))
    kept = source.end_offset
    if note.leader_epoch != NO_EPOCH and source.epoch_end_offset is not None:
        kept = min(kept, source.epoch_end_offset)
    if position.offset > kept:
        reason = (
            f"{partition} was copied up to offset {position.offset}, and the source has lost what "
            f"it had from {kept} on: its log was cut"
        )
        _refuse_loss(reason, "keeps what was copied", allows_loss=allows_loss)
        return Beginning(kept, kept, (f"{reason}; what it has since is copied behind that",))
    return Beginning(position.offset, position.offset)


def gap_refusal(partition: TopicPartition, was: int, now: int) -> RoundOverError:
    """Return the error for offsets that the source loses while they are read."""
    return RoundOverError(
        f"offset {was} of {partition} went from the source while it was copied, which has {now} "
        "now: run again, with --allow-loss where it says so",
        trouble=Trouble.ARCHIVE,
    )


def is_another(known: str, found: str) -> bool:
    """Return whether two ids of a topic are known and differ."""
    return bool(known and found) and known != found


def _refuse_loss(reason: str, what_it_does: str, *, allows_loss: bool) -> None:
    if not allows_loss:
        raise PipelineError(f"{reason}: --allow-loss {what_it_does}", trouble=Trouble.ARCHIVE)
