"""TopicDeletionManager: the moments at which a topic's deletion starts, waits, is tried again and
is done.

Pure: `resume` returns the steps that are due; the shell carries them out and calls again when
something has changed. A topic waits while a replica sits on a dead broker (it is then ineligible),
and goes on when that broker is back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kbroker.controller.state_machines.controller_context import (
    ControllerContext,
    Replica,
    ReplicaState,
)


@dataclass(frozen=True, slots=True)
class StartDeletion:
    """Stop and delete all replicas of a topic."""

    topic: str


@dataclass(frozen=True, slots=True)
class RetryDeletion:
    """Put replicas that could not be deleted back to Offline.

    They are tried again with the next start.
    """

    topic: str
    replicas: tuple[Replica, ...]


@dataclass(frozen=True, slots=True)
class CompleteDeletion:
    """All replicas are gone: remove the topic from the tree and the context."""

    topic: str


DeletionStep = StartDeletion | RetryDeletion | CompleteDeletion


class TopicDeletionManager:
    """Decides on topics queued for deletion. Owned by the controller's queue."""

    def __init__(self, context: ControllerContext, *, enabled: bool) -> None:
        self._context = context
        self.enabled = enabled

    def enqueue(self, topics: Iterable[str]) -> None:
        """Queue topics.

        One with a replica on a dead broker starts as well, and then waits for that broker.
        """
        self._context.topics_to_delete.update(topics)

    def dead_replicas(self, topic: str) -> list[Replica]:
        """Replicas of a topic that nobody can be asked to delete now."""
        context = self._context
        return [r for r in context.replicas_of_topic(topic) if not context.is_replica_online(r)]

    def mark_ineligible(self, topics: Iterable[str]) -> None:
        """Let topics wait until something changes."""
        self._context.topics_ineligible_for_deletion.update(
            topic for topic in topics if self._context.is_queued_for_deletion(topic)
        )

    def make_eligible(self, topics: Iterable[str]) -> None:
        """A broker is back: its topics may be tried again."""
        for topic in topics:
            if not self.dead_replicas(topic):
                self._context.topics_ineligible_for_deletion.discard(topic)

    def due(self, topics: Iterable[str] | None = None) -> Iterator[DeletionStep | None]:
        """For one topic after the other the step that is due now, None if there is none.

        Only for `topics`, if something changed for no other.
        """
        queued = self._context.topics_to_delete
        looked_at = sorted(queued if topics is None else queued.intersection(topics))
        return map(self._next_step, looked_at)

    def _next_step(self, topic: str) -> DeletionStep | None:
        context = self._context
        states = {context.replica_state(r): r for r in context.replicas_of_topic(topic)}
        started = topic in context.topics_with_deletion_started
        if started and set(states) <= {ReplicaState.DELETION_SUCCESSFUL}:
            return CompleteDeletion(topic)
        if ReplicaState.DELETION_STARTED in states:
            return None  # answers are on their way
        if topic in context.topics_ineligible_for_deletion:
            return None
        if started and ReplicaState.DELETION_INELIGIBLE in states:
            ineligible = context.replicas_in_state(topic, ReplicaState.DELETION_INELIGIBLE)
            return RetryDeletion(topic, tuple(ineligible))
        return StartDeletion(topic)
