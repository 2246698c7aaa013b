"""Events of partitions: who leads them and why, who is in sync and why, what was not appended.

Pure. The controller knows why leaders change and replicas fall out with their broker, a leader why
its followers fall behind and catch up.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kbroker.events.event import Fields, known, of_partition
from kbroker.model import NO_LEADER, TopicPartition


class LeaderCause(Enum):
    """The cause for which a partition gets another leader, or none."""

    LEADER_LOST = "broker {before} is gone, or cannot use its log"
    LEADER_STOPS = "broker {before} is about to stop"
    LEADER_BACK = "it had no leader, and this broker is back"
    PREFERRED = "it is the first of the replicas, which shall lead"
    REASSIGNED = "the partition moves to other brokers"
    UNCLEAN = "no replica in sync was left; records that only those had are lost"
    LONGEST_LOG = "it has the longest log of those that returned"
    NOBODY_LEFT = "broker {before} is gone, or cannot use its log, and no other is in sync"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class LeaderChange:
    """A partition has another leader; -1 is none."""

    name = "leader_changed"
    group = None

    topic_partition: TopicPartition
    before: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    why: LeaderCause

    @property
    def cause(self) -> str:
        return self.why.name.lower()

    def sentence(self) -> str:
        """Say who leads now, who did before, and why."""
        leader = "Nobody" if self.leader == NO_LEADER else f"Broker {self.leader}"
        after = "" if self.before == NO_LEADER else f" after broker {self.before}"
        cause = self.why.value.format(before=self.before)
        return (
            f"{leader} leads {self.topic_partition}{after} (epoch {self.leader_epoch}, "
            f"ISR {list(self.isr)}): {cause}"
        )

    def fields(self) -> Fields:
        """Name the partition and both leaders."""
        return {
            **of_partition(self.topic_partition),
            "leader": self.leader,
            "leader_before": self.before,
            "leader_epoch": self.leader_epoch,
            "isr": _joined(self.isr),
        }


class IsrCause(Enum):
    """The cause for which replicas leave the ISR, or come back."""

    LAGGING = "{replicas}, and may lag for {lag_time_max_ms:,} ms (replica.lag.time.max.ms)"
    CAUGHT_UP = "{replicas}"
    BROKER_LOST = "{replicas} gone, or cannot use the log"
    BROKER_STOPS = "{replicas} about to stop"
    MOVED_AWAY = "{replicas} no longer a replica, the partition has moved"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class IsrChange:
    """The ISR has shrunk or grown. `replicas` says for each that left or came how far it was."""

    group = None

    topic_partition: TopicPartition
    before: tuple[int, ...]
    isr: tuple[int, ...]
    why: IsrCause
    replicas: tuple[str, ...]
    lag_time_max_ms: int = 0

    @property
    def name(self) -> str:
        return "isr_expanded" if len(self.isr) > len(self.before) else "isr_shrunk"

    @property
    def cause(self) -> str:
        return self.why.name.lower()

    def sentence(self) -> str:
        """Say who is in sync now, and why others no longer are."""
        verb = "grew" if self.name == "isr_expanded" else "shrank"
        cause = self.why.value.format(
            replicas="; ".join(self.replicas), lag_time_max_ms=self.lag_time_max_ms
        )
        return (
            f"The ISR of {self.topic_partition} {verb} from {list(self.before)} to "
            f"{list(self.isr)}: {cause}"
        )

    def fields(self) -> Fields:
        """Name the partition and both ISRs."""
        return {
            **of_partition(self.topic_partition),
            "isr": _joined(self.isr),
            "isr_before": _joined(self.before),
        }


def _joined(isr: tuple[int, ...]) -> str:
    return ",".join(map(str, isr))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AppendRefused:
    """Records were not appended; `text` is what the log says of it, `code` the answer's error."""

    name = "append_refused"
    group = None

    topic_partition: TopicPartition
    code: str
    text: str
    client_id: str | None  # cut

    @property
    def cause(self) -> str:
        return self.code.lower()

    def sentence(self) -> str:
        """Say what the line of the log says."""
        return self.text

    def fields(self) -> Fields:
        """Name the partition, the code and the client."""
        about = known(code=self.code, client_id=self.client_id)
        return {**of_partition(self.topic_partition), **about}
