"""Controller, leaders, replicas and data directories. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.cli.doctor.finding import Finding, Severity
from kbroker.cli.doctor.observations import Directory, Observations, SeenCluster
from kbroker.model import TopicPartition
from kbroker.wording import counted, named

_CLUSTER = "cluster"
_FULL_SHARE, _FULL_BYTES = 0.02, 256 * 1024**2
_MEBIBYTE = 1024**2


def missing_controller(seen: Observations) -> Iterator[Finding]:
    """Find a cluster without a controller, or with one that is not among its brokers, or that does
    not answer for one.
    """
    cluster = seen.cluster
    if cluster is None:
        return
    said = None
    if not cluster.has_controller:
        said = "the brokers name no controller"
    elif cluster.controller_id not in cluster.broker_ids:
        said = f"the brokers name {cluster.controller_id} as controller, which is not one of them"
    for broker in seen.brokers:
        if broker.silence is not None:
            said = (
                f"broker {broker.node_id}, which is named as controller, does not say whether a "
                f"topic could be made: {broker.silence}"
            )
    if said is not None:
        yield Finding(
            code="no-controller",
            severity=Severity.ERROR,
            subject=_CLUSTER,
            seen=said,
            means="No topic can be made or changed, and no partition gets another leader.",
            mends="Check that the brokers reach their ZooKeeper, or that most KRaft controllers "
            "run; their logs say what they wait for.",
        )


def leaderless(seen: Observations) -> Iterator[Finding]:
    """Find partitions without a leader."""
    cluster = seen.cluster
    if cluster is None or not cluster.health.leaderless:
        return
    places = cluster.health.leaderless
    yield Finding(
        code="no-leader",
        severity=Severity.ERROR,
        subject=_CLUSTER,
        seen=f"{_counted(places)} without a leader: {_named(places)}{_away(cluster)}",
        means="They can be neither written nor read; groups stand still if __consumer_offsets is "
        "among them.",
        mends="Start the brokers that hold their replicas, or repair the directories with them. If "
        "those in sync never come back, `kbroker cluster elect --unclean TOPIC` gives up the "
        "records that only they have.",
    )


def too_few_in_sync(seen: Observations) -> Iterator[Finding]:
    """Find partitions with fewer replicas in sync than writes with `acks=all` need."""
    cluster = seen.cluster
    places = (cluster.health.under_min_isr if cluster else None) or frozenset()
    if cluster is None or not places - cluster.health.leaderless:
        return
    places -= cluster.health.leaderless
    yield Finding(
        code="under-min-isr",
        severity=Severity.ERROR,
        subject=_CLUSTER,
        seen=f"{_counted(places)} with fewer replicas in sync than min.insync.replicas: "
        f"{_named(places)}{_away(cluster)}",
        means="Writes with acks=all, the default of producers, fail with NOT_ENOUGH_REPLICAS.",
        mends="Start the brokers that are away, or wait until their replicas have caught up; a "
        "lower min.insync.replicas of the topic lets writes go on at once.",
    )


def under_replicated(seen: Observations) -> Iterator[Finding]:
    """Find partitions of which not all replicas are in sync, but for those that are worse off."""
    cluster = seen.cluster
    if cluster is None:
        return
    health = cluster.health
    places = health.under_replicated - health.leaderless - (health.under_min_isr or frozenset())
    if places:
        yield Finding(
            code="under-replicated",
            severity=Severity.WARNING,
            subject=_CLUSTER,
            seen=f"{_counted(places)} with replicas that are not in sync: {_named(places)}"
            f"{_away(cluster)}",
            means="They work, with fewer copies than they should have.",
            mends="Start the brokers that are away; if all are there, their logs say why they do "
            "not keep up.",
        )


def offline_directories(seen: Observations) -> Iterator[Finding]:
    """Find brokers that are there and have lost data directories, or replicas in them."""
    lost = dict(seen.cluster.offline) if seen.cluster else {}
    for broker in seen.brokers:
        paths = [each.path for each in broker.directories if each.is_offline]
        places = lost.get(broker.node_id, ())
        if paths or places:
            replicas = f"{_counted(places)} offline: {_named(places)}" if places else ""
            yield Finding(
                code="offline-directory",
                severity=Severity.ERROR,
                subject=f"broker {broker.node_id}",
                seen="the broker is there and has lost "
                + "; ".join(filter(None, (_directories(paths), replicas))),
                means="A disk failed, or a directory was removed or is not the broker's to write.",
                mends="Look at the broker's log, repair the disk or its rights, and start the "
                "broker again.",
            )


def full_directories(seen: Observations) -> Iterator[Finding]:
    """Find data directories on volumes with almost no space left."""
    for broker in seen.brokers:
        for directory in filter(_is_full, broker.directories):
            yield Finding(
                code="disk-almost-full",
                severity=Severity.WARNING,
                subject=f"broker {broker.node_id}",
                seen=f"{directory.usable_bytes // _MEBIBYTE:,} MiB of "
                f"{directory.total_bytes // _MEBIBYTE:,} MiB are left on the volume of "
                f"{directory.path}",
                means="The broker takes no more writes, or stops, once nothing is left.",
                mends="Make room, or let retention.ms or retention.bytes delete more.",
            )


def _is_full(directory: Directory) -> bool:
    usable, total = directory.usable_bytes, directory.total_bytes
    return total > 0 and 0 <= usable < min(_FULL_SHARE * total, _FULL_BYTES)


def _directories(paths: list[str]) -> str:
    return f"data directory {named(paths)}" if paths else ""


def _counted(places: frozenset[TopicPartition] | tuple[TopicPartition, ...]) -> str:
    return counted(len(places), "partition")


def _named(places: frozenset[TopicPartition] | tuple[TopicPartition, ...]) -> str:
    return named(sorted(map(str, places)))


def _away(cluster: SeenCluster) -> str:
    if not cluster.away:
        return ""
    ids = sorted(cluster.away)
    return f"; broker{'s' if len(ids) > 1 else ''} {named(ids)} not there"
