"""Commits offsets for groups without members, as `OffsetCommit` with generation -1 does.

Law: every partition gets an outcome; what a cluster answers is never raised. A caller whose commit
failed keeps the offsets and tries again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kbroker.client.bootstrap import Bootstrap
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.consumer_groups import commit_offsets
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition

_ACTIVE_GROUP = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
)
_METADATA = "Spark, after the batch"


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """The partitions in `settled` are committed, or their topic is gone. `problem` is a sentence on
    why the rest is not; if the cluster does not answer it is the same for all groups.
    """

    settled: Mapping[TopicPartition, int]
    problem: str | None = None
    cluster_answers: bool = True


class GroupCommits:
    """A connection to a cluster, opened when it is needed. Owned by one thread."""

    def __init__(self, bootstrap: Bootstrap) -> None:
        self._bootstrap = bootstrap
        self._links: ClusterLinks | None = None

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> CommitOutcome:
        """Commit the offsets of one group, within bounded time."""
        try:
            if self._links is None:
                self._links = ClusterLinks(self._bootstrap)
            codes = commit_offsets(self._links, group, offsets, _METADATA)
        except (ClientError, KafkaError, OSError) as error:
            self.close()
            return CommitOutcome({}, f"{self._bootstrap} takes no offsets: {error}", False)
        return self._outcome(group, offsets, codes)

    def close(self) -> None:
        """Close the connection; the next commit opens one."""
        if self._links is not None:
            self._links.close()
            self._links = None

    def _outcome(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        codes: Mapping[TopicPartition, ErrorCode],
    ) -> CommitOutcome:
        settled: dict[TopicPartition, int] = {}
        problem = None
        for partition, offset in offsets.items():
            code = codes.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            if code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                settled[partition] = offset
            elif code in _ACTIVE_GROUP:
                problem = (
                    f"group {group} has members of its own, which commit for it: stop them, "
                    "or give the query another name"
                )
            else:
                problem = f"{self._bootstrap} refused {group} an offset of {partition}: {code.name}"
        return CommitOutcome(settled, problem)
