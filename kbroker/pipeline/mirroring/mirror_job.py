"""A mirror on the driver's side: round by round the topics, the tasks that copy, the groups, and
how far behind it is.

Law: a round copies what was committed in the source when it began. The target holds everything that
a next run has to know; the checkpoint keeps what a person has allowed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kbroker.client.cluster_links import LATEST, ClusterLinks
from kbroker.client.consumer_groups import committed_entries
from kbroker.client.topic_figures import epoch_ends, leaders_in, offsets_at
from kbroker.client.transactional_producer import NOTHING, Position
from kbroker.client.untransacted import has_transactions
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.mirroring.copy_writing import CopyOptions
from kbroker.pipeline.mirroring.group_moves import GroupMoves, own_group
from kbroker.pipeline.mirroring.mirror_checkpoint import MirrorCheckpoint
from kbroker.pipeline.mirroring.mirror_lag import MirrorLag, lag_of
from kbroker.pipeline.mirroring.mirror_task import MirrorResult, MirrorTask
from kbroker.pipeline.mirroring.mirrored_topics import MirrorChoice, MirroredTopics
from kbroker.pipeline.mirroring.offsets_topic import (
    OFFSETS_TOPIC,
    MirroredOffsets,
    forget,
)
from kbroker.pipeline.mirroring.places import (
    NO_EPOCH,
    Beginning,
    PlaceNote,
    RoundOverError,
    SourcePartition,
    beginning,
)
from kbroker.pipeline.mirroring.source_look import SourceLook, id_of, look_at_source
from kbroker.pipeline.restoring.task_board import TaskBoard

_OPEN_S = 90.0  # brokers abort a transaction after a minute and check every ten seconds


class MirrorJob:
    """Owned by one thread. Methods raise PipelineError, ClientError, KafkaError and OSError."""

    def __init__(
        self,
        readers: ClusterLinks,
        writers: ClusterLinks,
        choice: MirrorChoice,
        checkpoint: MirrorCheckpoint,
    ) -> None:
        """Refuse a source that is the target."""
        self.source_id, self.target_id = (
            str(links.describe([]).cluster_id or "") for links in (readers, writers)
        )
        if self.source_id == self.target_id:
            raise PipelineError(
                f"{readers.bootstrap} and {writers.bootstrap} are one cluster, {self.source_id}: "
                "give another one as --from or --bootstrap",
                ExitCode.USAGE,
            )
        self.in_transactions = has_transactions(writers)
        self.board = TaskBoard(checkpoint.board)
        self.places: dict[TopicPartition, int] = {}  # by partition of the source: copied up to here
        self._readers, self._writers = readers, writers
        self._wish = choice
        self._group = own_group(self.source_id)
        self._offsets = MirroredOffsets(self.source_id)
        self._offsets_back = MirroredOffsets(self.target_id)
        self._groups = GroupMoves(self._offsets, self._offsets_back)
        self.topics = MirroredTopics(readers, writers, choice, checkpoint, self._group)
        self._look: SourceLook | None = None

    # A round: `topics.changes`, `topics.changed`, and then these.

    def tasks(self) -> list[MirrorTask]:
        """Return a task for each partition that has something new, the largest first."""
        self._offsets.read_on(self._writers)
        committed = committed_entries(self._writers, self._group)
        look = self._look = look_at_source(
            self._readers, self.topics.views
        )  # after where any mirror is
        targets = self._ready_targets(look)
        positions = self._positions(look, committed)
        sources = self._sources(look, positions)
        tasks: dict[TopicPartition, MirrorTask] = {}
        for partition in look.partitions():
            target_topic = targets[partition.topic]
            begun = self._begun(sources[partition], target_topic, positions[partition])
            self.places[partition] = begun.offset
            if begun.offset < look.stable[partition] or begun.notes:
                tasks[partition] = self._task(
                    sources[partition], target_topic, positions[partition]
                )
        return sorted(
            tasks.values(),
            key=lambda task: (
                self.places[task.options.source.partition] - task.options.source.stable_offset
            ),
        )

    def end_round(
        self, tasks: Sequence[MirrorTask], results: Sequence[MirrorResult], *, is_last: bool
    ) -> int:
        """Move groups after the tasks, and forget offsets that the source no longer has; return how
        many groups were moved. The last round waits for the map of offsets.
        """
        assert self._look is not None, "tasks were made"
        for task, result in zip(tasks, results, strict=True):
            if result.reached is not None:
                self.places[task.options.source.partition] = result.reached
        is_whole = self._offsets.read_on(self._writers, _OPEN_S if is_last else 0.0)
        if tasks:
            self._forget(self._look)
        self._offsets_back.read_on(self._readers)
        moved = self._groups.run(self._readers, self._writers, self._look.starts)
        if is_last and not is_whole:
            self._groups.refusals.append(
                f"groups may be behind: a transaction of {OFFSETS_TOPIC} is open"
            )
        return len(moved)

    def lag(self, now_ms: int) -> MirrorLag:
        """Return how far it is behind."""
        return lag_of(self._readers, self.behind(), now_ms)

    def behind(self) -> dict[TopicPartition, tuple[int, int]]:
        """Return place and end in the source of the partitions that have more by now."""
        ends = offsets_at(self._readers, leaders_in(self.topics.views.values()), LATEST)
        return {
            partition: (place, ends[partition])
            for partition, place in sorted(self.places.items())
            if ends.get(partition, place) > place
        }

    def break_off(self) -> None:
        """Drop answers that brokers still owe to a round that an error ended."""
        for links in (self._readers, self._writers):
            for link in links.busy():
                links.lose(link)

    @property
    def held(self) -> list[str]:
        """Return sentences about groups that go on in the target by themselves."""
        return self._groups.notes

    @property
    def unmoved(self) -> list[str]:
        """Return sentences about groups that were not moved in this round."""
        return self._groups.refusals

    @property
    def silent(self) -> list[TopicPartition]:
        """Return the partitions that did not answer in this round."""
        return self._look.silent() if self._look is not None else []

    def _ready_targets(self, look: SourceLook) -> dict[str, str]:
        """Return the ids of the target's topics."""
        found = {}
        for name in look.views:
            view = self._writers.ready_topic(name)
            if view is None:
                raise RoundOverError(f"topic {name} is not in the target: run again to make it")
            found[name] = id_of(view)
        return found

    def _positions(
        self, look: SourceLook, entries: Mapping[TopicPartition, Any]
    ) -> dict[TopicPartition, Position]:
        found: dict[TopicPartition, Position] = {}
        for partition in look.partitions():
            entry = entries.get(partition)
            if entry is not None and entry.committed_offset >= 0:
                found[partition] = Position(entry.committed_offset, entry.metadata or "")
            else:
                found[partition] = self._known(partition)
        return found

    def _known(self, partition: TopicPartition) -> Position:
        """Return the position by the offset map: the group expires (offsets.retention.minutes)."""
        stretch = self._offsets.partition(partition).newest
        if stretch is None:
            return NOTHING
        return Position(stretch.end, str(PlaceNote(stretch.source_topic, stretch.target_topic)))

    def _sources(
        self, look: SourceLook, positions: Mapping[TopicPartition, Position]
    ) -> dict[TopicPartition, SourcePartition]:
        notes = {each: PlaceNote.parsed(at.metadata) for each, at in positions.items()}
        epochs = {
            each: note.leader_epoch
            for each, note in notes.items()
            if note.leader_epoch != NO_EPOCH and positions[each].offset != look.stable[each]
        }
        ends = epoch_ends(self._readers, leaders_in(look.views.values()), epochs)
        return {
            each: SourcePartition(
                partition=each,
                topic_id=look.topic_id(each.topic),
                start_offset=look.starts[each],
                stable_offset=look.stable[each],
                end_offset=look.ends[each],
                epoch_end_offset=ends.get(each),
            )
            for each in positions
        }

    def _begun(self, source: SourcePartition, target_topic: str, position: Position) -> Beginning:
        return beginning(source, target_topic, position, allows_loss=self._wish.allows_loss)

    def _task(self, source: SourcePartition, target_topic: str, position: Position) -> MirrorTask:
        return MirrorTask(
            source=self._readers.bootstrap,
            target=self._writers.bootstrap,
            options=CopyOptions(
                source=source,
                source_id=self.source_id,
                target_id=self.target_id,
                target_topic=target_topic,
                group=self._group,
                known=self._known(source.partition),
                seen=position,
                allows_loss=self._wish.allows_loss,
                compression=self._wish.compression,
                in_transactions=self.in_transactions,
            ),
            board=str(self.board.directory),
        )

    def _forget(self, look: SourceLook) -> None:
        gone = {
            partition: [each.start for each in self._offsets.partition(partition).before(start)]
            for partition, start in look.starts.items()
        }
        forget(self._writers, self.source_id, gone)
