"""A look at a cluster: what the screen shows, and `--once` prints. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kbroker.console.cluster_sample import ClusterSample
from kbroker.console.rates import BrokerRate, GroupRate, TopicRate


class Connections(NamedTuple):
    """Connections as brokers list them, and why some are missing."""

    rows: Sequence[Mapping[str, Any]]
    gaps: Sequence[str]


NOT_ASKED: Final = Connections(
    (), ("not asked for: --url http://HOST:PORT names the HTTP address of a kbroker",)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A cluster as it is now; `seconds` since the look before, over which topics and brokers are
    measured, None if it is the first.
    """

    sample: ClusterSample
    seconds: float | None
    topics: Sequence[TopicRate]
    groups: Sequence[GroupRate]
    brokers: Sequence[BrokerRate]
    connections: Connections


class Trouble(NamedTuple):
    """The reason why there is no look now, in one sentence."""

    sentence: str
