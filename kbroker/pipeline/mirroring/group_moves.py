"""Moves groups whose readers may go on in the target: their offsets, translated.

Law: a place is never moved back, nor for a group that has members in the target; and a group that
goes on there misses no record of the source that it has not read. So no group gets an offset of a
topic for another topic of the same name, which has other offsets.
"""

from __future__ import annotations

from collections.abc import Mapping

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.consumer_groups import OF_JOBS, committed_offsets
from kbroker.errors import KafkaError
from kbroker.model import TopicPartition
from kbroker.pipeline.consumer_lag.cluster_look import consumer_groups
from kbroker.pipeline.mirroring.offsets_topic import MirroredOffsets
from kbroker.pipeline.mirroring.places import is_another
from kbroker.pipeline.mirroring.source_look import id_of
from kbroker.pipeline.restoring.topics.moved_groups import move_group

_GROUP_PREFIX = "kbroker-mirror-"

Offsets = Mapping[TopicPartition, int]


class GroupMoves:
    """From a source into a target; owned by one thread. `to_target` has what was copied from the
    source into the target, `to_source` what came the other way, if anything does.
    """

    def __init__(self, to_target: MirroredOffsets, to_source: MirroredOffsets) -> None:
        self.refusals: list[str] = []  # of the last run: what was not moved, and why
        self.notes: list[str] = []  # of the last run: what goes on in the target by itself
        self._to_target, self._to_source = to_target, to_source

    def run(
        self, readers: ClusterLinks, writers: ClusterLinks, source_starts: Offsets
    ) -> dict[str, int]:
        """Move the groups that have offsets of these partitions; return how many partitions, by
        group. One that cannot be moved does not hold up the others.

        Raises OSError if a cluster is away.
        """
        moved: dict[str, int] = {}
        self.refusals, self.notes = [], []
        try:
            groups = consumer_groups(readers)
            starts = self._same(writers, source_starts)
        except (ClientError, KafkaError) as error:
            self.refusals.append(f"groups were not moved: {error}")
            return moved
        for name in groups:
            if name.startswith(OF_JOBS):
                continue
            try:
                wanted = self._wanted(readers, name, starts)
                if not wanted:
                    continue
                found = move_group(writers, name, wanted)
            except (ClientError, KafkaError) as error:
                self.refusals.append(f"group {name} was not moved: {error}")
                continue
            if found.changed:
                moved[name] = found.changed
            if found.refusal:
                told = self.notes if found.has_members else self.refusals
                told.append(f"group {name} was not moved: {found.refusal}")
        return moved

    def _same(self, writers: ClusterLinks, source_starts: Offsets) -> Offsets:
        """Leave out the partitions whose topic was created again since they were copied."""
        names = {partition.topic for partition in source_starts}
        ids = {view.name: id_of(view) for view in writers.topics(names)} if names else {}
        found: dict[TopicPartition, int] = {}
        for partition, start in source_starts.items():
            newest = self._to_target.partition(partition).newest
            if newest is None or not is_another(newest.target_topic, ids.get(partition.topic, "")):
                found[partition] = start
        for topic in sorted(names - {partition.topic for partition in found}):
            self.refusals.append(
                f"groups of topic {topic} were not moved: it was created again in the target"
            )
        return found

    def _wanted(
        self, readers: ClusterLinks, name: str, source_starts: Offsets
    ) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for partition, offset in committed_offsets(readers, name).items():
            if partition in source_starts and offset is not None:
                there = self._translated(partition, offset, source_starts[partition])
                if there is not None:
                    found[partition] = there
        return found

    def _translated(self, partition: TopicPartition, offset: int, start_offset: int) -> int | None:
        """Return where the group goes on. Records that the source has from the target are read
        there in another order: it goes on before the first one that it has not seen.
        """
        there = self._to_target.partition(partition).target_offset(offset, start_offset)
        own = self._to_source.partition(partition).source_offset(offset)
        return there if there is None or own is None else min(there, own)


def own_group(source_id: str) -> str:
    """Return the group of the target that keeps the progress of its mirrors from a source."""
    return f"{_GROUP_PREFIX}{source_id}"
