"""Commits offsets for groups without members, as `OffsetCommit` with generation -1 does.

Law: says what came of each partition, and never raises what a cluster answers. Who is told that it
did not work keeps the offsets and comes again.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kafka.admin import KafkaAdminClient
from kafka.errors import (
    IllegalGenerationError,
    KafkaError,
    NoError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import OffsetAndMetadata

from kbroker.client.connection import ClientError, check_reachable, sentence_of
from kbroker.model import TopicPartition

ARGUMENT = "the argument bootstrap"  # as the caller of commit_progress knows it
_ACTIVE_GROUP = (UnknownMemberIdError, IllegalGenerationError, RebalanceInProgressError)
_CONNECT_TIMEOUT_S = 5
_REQUEST_TIMEOUT_MS = 10_000
_NO_EPOCH = -1
_METADATA = "Spark, after the batch"


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """`settled` is committed, or can never be, as its topic is gone. `problem` says, in a sentence,
    why the rest is not; where the cluster does not answer, it is the same for all groups.
    """

    settled: Mapping[TopicPartition, int]
    problem: str | None = None
    cluster_answers: bool = True


class GroupCommits:
    """A connection to a cluster, opened when it is needed. Owned by one thread."""

    def __init__(self, bootstrap: str, client_options: Mapping[str, Any]) -> None:
        self._bootstrap = bootstrap
        self._options = client_options
        self._admin: Any = None

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> CommitOutcome:
        """Commit the offsets of one group, within bounded time."""
        try:
            answers = self._connected().alter_group_offsets(
                group,
                {
                    partition: OffsetAndMetadata(offset, _METADATA, _NO_EPOCH)
                    for partition, offset in offsets.items()
                },
            )
        except (ClientError, KafkaError, OSError) as error:
            self.close()
            said = error.sentence if isinstance(error, ClientError) else sentence_of(error)
            return CommitOutcome({}, f"{self._bootstrap} takes no offsets: {said}", False)
        return self._outcome(group, offsets, answers)

    def close(self) -> None:
        """Close the connection; the next commit opens one."""
        if self._admin is not None:
            with suppress(KafkaError, OSError):
                self._admin.close()
            self._admin = None

    def _connected(self) -> Any:
        if self._admin is None:
            # Else the client would log each of its attempts.
            check_reachable(self._bootstrap, ARGUMENT)
            self._admin = KafkaAdminClient(
                bootstrap_servers=self._bootstrap,
                bootstrap_timeout_ms=_CONNECT_TIMEOUT_S * 1_000,
                **{
                    "client_id": "kbroker-commit-progress",
                    "request_timeout_ms": _REQUEST_TIMEOUT_MS,
                    **self._options,
                },
            )
        return self._admin

    def _outcome(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        answers: Mapping[Any, type[KafkaError]],
    ) -> CommitOutcome:
        settled: dict[TopicPartition, int] = {}
        problem = None
        for partition, offset in offsets.items():
            error = answers.get(partition, KafkaError)
            if error is NoError or issubclass(error, UnknownTopicOrPartitionError):
                settled[partition] = offset
            elif issubclass(error, _ACTIVE_GROUP):
                problem = (
                    f"group {group} has members of its own, which commit for it: stop them, "
                    "or give the query another name"
                )
            else:
                problem = (
                    f"{self._bootstrap} refused {group} an offset of {partition}: {error.__name__}"
                )
        if problem is not None:
            self.close()  # the coordinator may have moved, and the client would ask the same again
        return CommitOutcome(settled, problem)
