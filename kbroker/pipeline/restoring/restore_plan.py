"""Plans a restore: which partitions of an archive go where, and which of their rows. Pure.

A plan follows from the user's choice and from the archive as it is then: a run that goes on later
makes its own, and takes from the target how far the last one came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kbroker.errors import Trouble
from kbroker.model import INTERNAL_TOPICS, TopicPartition
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState
from kbroker.pipeline.archiving.manifests.manifest import FileEntry
from kbroker.pipeline.archiving.reader import ArchiveSelection, check_topics
from kbroker.pipeline.errors import ExitCode, PipelineError


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreChoice:
    """The user's choice; everything by default. `keys`: only records with one of these."""

    wanted: ArchiveSelection = field(default_factory=ArchiveSelection)
    keys: frozenset[bytes] = frozenset()
    renamed: Mapping[str, str] = field(
        default_factory=dict
    )  # topic of the archive -> of the target

    def text(self) -> str:
        """Return the same text for the same choice: a checkpoint belongs to one."""
        keys = ",".join(sorted(key.hex() for key in self.keys))
        renamed = ",".join(f"{old}={new}" for old, new in sorted(self.renamed.items()))
        chosen = {
            "topics": ",".join(sorted(self.wanted.topics)) or None,
            "partitions": ",".join(map(str, sorted(self.wanted.partitions))) or None,
            "from": self.wanted.start_ms,
            "to": self.wanted.end_ms,
            "keys": keys if self.keys else None,  # a single key may be empty
            "rename": renamed or None,
        }
        return " ".join(f"{name}={value}" for name, value in chosen.items() if value is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """One partition; `rows` of its files may be more than what is wanted of them."""

    source: TopicPartition
    target: TopicPartition
    files: tuple[FileEntry, ...]

    @property
    def rows(self) -> int:
        """The number of rows in its files."""
        return sum(entry.rows for entry in self.files)

    @property
    def size_bytes(self) -> int:
        """The size of its files."""
        return sum(entry.size_bytes for entry in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """Partitions of an archive with their targets, for a choice."""

    state: ArchiveState
    choice: RestoreChoice
    partitions: tuple[PartitionPlan, ...]

    @property
    def rows(self) -> int:
        """At most so many are written: files also have rows that are not wanted."""
        return sum(plan.rows for plan in self.partitions)

    @property
    def size_bytes(self) -> int:
        return sum(plan.size_bytes for plan in self.partitions)


def plan_restore(state: ArchiveState, choice: RestoreChoice) -> list[PartitionPlan]:
    """Return a plan for each wanted partition, also for one without rows: the target has it, too.

    Raises PipelineError for an archive without topics, for a topic or partition that it does not
    have, for a target that is a topic of the brokers' own, and for two topics with one name.
    """
    check_topics(state, (*choice.wanted.topics, *choice.renamed))
    if not state.partitions():
        raise PipelineError(
            f"the archive {state.path} has no topics yet: nothing to restore (`kbroker pipeline "
            "archive list` shows what it has)",
            trouble=Trouble.ARCHIVE,
        )
    sources = _sources(state, choice.wanted)
    by_target: dict[str, str] = {}
    for topic in sorted({partition.topic for partition in sources}):
        target = choice.renamed.get(topic, topic)
        if target in INTERNAL_TOPICS:
            raise PipelineError(
                f"{target} is a topic of the brokers' own, and its records are of another cluster: "
                "choose others with --topics, or write it under another name with "
                f"--rename {topic}=NAME",
                ExitCode.USAGE,
            )
        other = by_target.setdefault(target, topic)
        if other != topic:
            raise PipelineError(
                f"{other} and {topic} would both be written to {target}: give one of them another "
                "name with --rename",
                ExitCode.USAGE,
            )
    return [
        PartitionPlan(
            source=source,
            target=source._replace(topic=choice.renamed.get(source.topic, source.topic)),
            files=tuple(entry for entry in state.entries(source) if choice.wanted.wants(entry)),
        )
        for source in sources
    ]


def _sources(state: ArchiveState, wanted: ArchiveSelection) -> list[TopicPartition]:
    topics, numbers = wanted.topics or state.topics(), set(wanted.partitions)
    found = [partition for partition in state.partitions() if partition.topic in topics]
    known = {partition.partition for partition in found}
    if not numbers <= known:
        raise PipelineError(
            f"the archive {state.path} has no partition {_listed(numbers - known)} of "
            f"{', '.join(sorted(topics))}: it has {_listed(known)}",
            ExitCode.USAGE,
        )
    return [partition for partition in found if not numbers or partition.partition in numbers]


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def partition_count(state: ArchiveState, topic: str) -> int:
    """Return how many partitions an archived topic has, as far as the archive knows."""
    archived = max(each.partition for each in state.partitions(topic)) + 1
    return max(archived, state.partition_counts.get(topic, 0))
