"""Keeps how far groups have read the topics of an archive, so that a restore can let them go on
there.

Law: as for settings of topics, no answer ends a job, and a group that no broker reports stays as it
was reported last. Brokers that restart report less than there is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.consumer_groups import OF_JOBS, committed_offsets, listed_groups
from kbroker.errors import KafkaError
from kbroker.pipeline.archiving.manifests.archive_writer import ArchiveStep, ArchiveWriter
from kbroker.pipeline.archiving.manifests.manifest import GroupOffsets
from kbroker.pipeline.spark_job.continuity import named_places

_ASK_AGAIN_S = 60.0  # while a job runs; it asks once more at its end


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldGroups:
    """The offsets of all groups that were reported, for the topics that were asked for."""

    offsets: GroupOffsets
    refused: tuple[str, ...] = ()  # groups whose coordinator gave no offsets
    refusal: str = ""  # the last of them in words


Ask = Callable[[Collection[str]], ToldGroups]


class KeptGroups:
    """Writes offsets of groups into an archive as they change. Owned by one thread."""

    def __init__(self, ask: Ask, now_s: Callable[[], float] = time.monotonic) -> None:
        """Take `ask`, which raises ClientError, OSError and KafkaError if no broker answers."""
        self._ask = ask
        self._now_s = now_s
        self._due_s = 0.0
        self._noted: set[str] = set()

    def keep_if_due(self, writer: ArchiveWriter) -> list[str]:
        """Do what `keep` does, at most once a minute."""
        return self.keep(writer) if self._now_s() >= self._due_s else []

    def keep(self, writer: ArchiveWriter) -> list[str]:
        """Publish what has changed of the archive's topics; return each gap as a sentence, once."""
        topics = writer.state.topics()
        if not topics:
            return []
        try:
            told = self._ask(topics)
        except (ClientError, OSError, KafkaError) as error:
            return self._notes(f"the offsets of groups: {error}")
        self._due_s = self._now_s() + _ASK_AGAIN_S
        if news := writer.state.news_of_groups(told.offsets):
            writer.publish(
                ArchiveStep(kind="groups", batch=writer.next_batch(), group_offsets=news)
            )
        new = [group for group in told.refused if group not in self._noted]
        self._noted.update(new)
        return self._notes(f"the offsets of {named_places(new)}: {told.refusal}") if new else []

    def _notes(self, what: str) -> list[str]:
        sentence = f"the archive goes on without {what}"
        if sentence in self._noted:
            return []
        self._noted.add(sentence)
        return [sentence]


def ask_groups(bootstrap: str, topics: Collection[str]) -> ToldGroups:
    """Ask a cluster's coordinators. Raises ClientError, KafkaError and OSError if none answers."""
    wanted = frozenset(topics)
    offsets: GroupOffsets = {}
    refused: list[str] = []
    refusal = ""
    with closing(ClusterLinks(bootstrap)) as links:
        listed = [group.group_id for group in listed_groups(links)]
        for name in (each for each in listed if not each.startswith(OF_JOBS)):
            try:
                committed = committed_offsets(links, name)
            except (ClientError, OSError, KafkaError) as error:
                refused.append(name)
                refusal = str(error)
                continue
            found: dict[str, dict[int, int]] = {}
            for (topic, number), offset in sorted(committed.items()):
                if topic in wanted and offset is not None:
                    found.setdefault(topic, {})[number] = offset
            offsets[name] = found
    return ToldGroups(offsets=offsets, refused=tuple(refused), refusal=refusal)
