"""What two clusters show of the same load: names, types and labels, and what they have counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from compat_tests.metrics.load import ROUNDS, TOPICS, Load
from compat_tests.metrics.pages import Page, Shown
from compat_tests.metrics.reasons import NOT_IN_APACHE, NOT_IN_KBROKER, Reason
from compat_tests.metrics.sides import Side

OWN = ("consumergroup", "topic", "partition")  # labels of a group's lag
_BY_TOPIC = "kafka_server_brokertopicmetrics_"
_COUNTED_BY_TOPIC = (
    "messagesin_total",
    "bytesin_total",
    "bytesout_total",
    "totalproducerequests_total",
)
_REQUESTS = "kafka_network_requestmetrics_requests_total"
_ERRORS = "kafka_network_requestmetrics_errors_total"
# Whose numbers the load alone decides: brokers ask in other versions.
_ASKED = {
    "Produce": (6, 7), "Fetch": (11,), "FetchConsumer": (11,), "Metadata": (6, 7),
    "ListOffsets": (5,), "ListGroups": (1,), "FindCoordinator": (1,), "JoinGroup": (5,),
    "SyncGroup": (3,), "Heartbeat": (3,), "OffsetCommit": (7,), "DescribeGroups": (3,),
}  # fmt: skip


class Difference(NamedTuple):
    """A kind of series that only one side shows, and why; None if nothing explains it."""

    shown: Shown
    why: str | None


class Counted(NamedTuple):
    """What both sides have counted of the load."""

    what: str
    apache: float
    kbroker: float


class Observed(NamedTuple):
    """A side before and after the load, and the lags that its clients see."""

    before: Page
    after: Page
    lags: Mapping[tuple[str, str, str], int]

    def grown(self, name: str, **labels: str) -> float:
        """How much the series of that name with these labels have grown."""
        return self.after.value(name, **labels) - self.before.value(name, **labels)


def observed(side: Side, rounds: int = ROUNDS) -> Observed:
    """Put the load on a cluster."""
    load = Load(side.cluster, rounds)
    load.prepare()
    before = side.page()
    load.run()
    return Observed(before, side.page(), load.lags())


def differences(
    ours: Iterable[Shown], theirs: Iterable[Shown], reasons: Iterable[Reason]
) -> list[Difference]:
    """Return what `ours` has and `theirs` lacks."""
    lacking = sorted(set(ours) - set(theirs))
    return [Difference(each, _why(each, reasons)) for each in lacking]


def _why(shown: Shown, reasons: Iterable[Reason]) -> str | None:
    return next((reason.why for reason in reasons if reason.explains(shown)), None)


def shown_differences(apache: Page, kbroker: Page) -> tuple[list[Difference], list[Difference]]:
    """Return what Apache Kafka alone shows, and what kbroker alone shows."""
    return (
        differences(apache.shown, kbroker.shown, NOT_IN_KBROKER),
        differences(kbroker.shown, apache.shown, NOT_IN_APACHE),
    )


def counts(apache: Observed, kbroker: Observed) -> list[Counted]:
    """Return what was counted of each topic and API of the load, and the lag of its group."""
    asked: list[tuple[str, dict[str, str]]] = [
        (_BY_TOPIC + name, {"topic": topic}) for topic in TOPICS for name in _COUNTED_BY_TOPIC
    ]
    asked += [
        (_REQUESTS, {"request": api, "version": str(version)})
        for api, versions in _ASKED.items()
        for version in versions
    ]
    asked += [
        (_ERRORS, {"request": api, "error": "UNKNOWN_TOPIC_OR_PARTITION"})
        for api in ("Produce", "Metadata", "ListOffsets")
    ]
    found = [
        Counted(
            f"{name} {' '.join(labels.values())}",
            apache.grown(name, **labels),
            kbroker.grown(name, **labels),
        )
        for name, labels in asked
    ]
    for key in sorted(apache.lags):
        shown = kbroker.after.value("kafka_consumergroup_lag", **dict(zip(OWN, key, strict=True)))
        found.append(Counted(f"lag {' '.join(key)}", apache.lags[key], shown))
    return found
