"""Examination: asks everything there is to ask of a cluster, in the order in which a client would
fail.

Law: nothing is written unless that is asked for: no topic is made, also not __consumer_offsets by
the first question for a group.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace

from kbroker.cli.doctor.observations import (
    Door,
    GroupTrial,
    Observations,
    SeenBroker,
    SeenCluster,
)
from kbroker.cli.doctor.probes.clusters import latest_ahead_ms, seen_broker, seen_cluster
from kbroker.cli.doctor.probes.doors import knock, patience_of
from kbroker.cli.doctor.probes.trials import Session, asked_group, tried_group, tried_topic
from kbroker.cli.doctor.rules.numbers import number_of
from kbroker.cli.doctor.rules.topics import TRIAL_PREFIX
from kbroker.client.bootstrap import Bootstrap, addresses_of, option_of, settings_of
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.connection_settings import ConnectionSettings
from kbroker.model import GROUP_METADATA_TOPIC
from kbroker.protocol.messages.metadata import MetadataResponse

_SESSION_MS, _REBALANCE_MS = 10_000, 10_000
_LONGEST_JOIN_MS = 10_000
_AT_ONCE = 16  # brokers


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """Everything that was seen; `untried` says what was not tried, and why, if anything."""

    seen: Observations
    untried: str | None = None


def examine(
    bootstrap: str, *, writes: bool, begin: Callable[[str], None], tell: Callable[[str], None]
) -> Examination:
    """Examine a cluster; `writes`: also with a topic and a group of our own. `begin` gets the name
    of each step, `tell` sentences for a person.

    Raises ClientError for a malformed address, and OSError or KafkaError if the brokers stop to
    answer meanwhile.
    """
    settings = settings_of(bootstrap)
    doors = []
    for host, port in addresses_of(bootstrap, option_of(bootstrap)):
        begin(f"{host}:{port}")
        door, link = knock(host, port, settings)
        if link is not None:
            link.close()
        doors.append(door)
    open_doors = [door for door in doors if door.lets_in]
    if not open_doors:
        return Examination(seen=Observations(protocol=settings.protocol, doors=tuple(doors)))
    # A cluster that has lost its metadata answers some questions never.
    impatient = replace(settings, request_timeout_s=patience_of(settings).answer_s)
    names = ",".join(door.name for door in open_doors)
    with closing(ClusterLinks(Bootstrap(names, impatient), tell=tell)) as links:
        return _inside(links, settings, doors, writes=writes, begin=begin, tell=tell)


def _inside(
    links: ClusterLinks,
    settings: ConnectionSettings,
    doors: Iterable[Door],
    *,
    writes: bool,
    begin: Callable[[str], None],
    tell: Callable[[str], None],
) -> Examination:
    begin("brokers at the addresses that clients are given")
    brokers = _brokers(links.describe([]), settings)
    begin("brokers, topics and partitions")
    has_controller = all(broker.silence is None for broker in brokers)
    cluster = seen_cluster(links, has_controller=has_controller)
    trial, group, ahead_ms = None, None, {}
    untried = _obstacle(cluster, brokers)
    if untried is not None:
        untried = f"{'a record and a group' if writes else 'a group'}: {untried}"
    else:
        ahead_ms = latest_ahead_ms(links)
        name = TRIAL_PREFIX + secrets.token_hex(4)
        if writes:
            begin("a record")
            address = Bootstrap(links.bootstrap, settings)
            with closing(ClusterLinks(address, tell=tell)) as patient:
                trial = tried_topic(patient, name, cluster.broker_ids, tell)
        if writes or cluster.has_topic(GROUP_METADATA_TOPIC):
            begin("a group")
            group = _group(links, name, brokers)
        else:
            # It is not there, or the user may not see it.
            untried = (
                f"a group: no {GROUP_METADATA_TOPIC} is seen, the first one makes it (--write)"
            )
    seen = Observations(
        protocol=settings.protocol,
        doors=tuple(doors),
        cluster=cluster,
        brokers=tuple(brokers),
        latest_ahead_ms=ahead_ms,
        trial=trial,
        group=group,
    )
    return Examination(seen=seen, untried=untried)


def _brokers(described: MetadataResponse, settings: ConnectionSettings) -> list[SeenBroker]:
    """Return every broker as seen at the address that clients are given. Several are asked at once,
    because a large cluster behind a wall would take its number times the time-out.
    """
    controller_id = described.controller_id
    places = sorted((each.node_id, (each.host, each.port)) for each in described.brokers)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        asked = [
            pool.submit(seen_broker, node_id, *at, settings, is_controller=node_id == controller_id)
            for node_id, at in places
        ]
        try:
            return [each.result() for each in asked]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # after Ctrl-C


def _obstacle(cluster: SeenCluster, brokers: Sequence[SeenBroker]) -> str | None:
    """Return why nothing can be tried: it would take long and find the same faults again."""
    closed = [
        broker.node_id
        for broker in brokers
        if not broker.door.lets_in
        or broker.disowned is not None
        or broker.door.cluster_id != cluster.cluster_id
    ]
    if closed:
        return "not every broker is at the address that clients are given"
    if (
        any(broker.silence is not None for broker in brokers)
        or cluster.controller_id not in cluster.broker_ids
    ):
        return "there is no controller"
    return None


def _group(links: ClusterLinks, name: str, brokers: Iterable[SeenBroker]) -> GroupTrial:
    """Join a group; if the brokers would let its first member wait for long, only ask for it."""
    known: Mapping[str, str] = next(
        (broker.settings for broker in brokers if broker.settings is not None), {}
    )
    delay_ms = number_of(known, "group.initial.rebalance.delay.ms") or 0
    if delay_ms > _LONGEST_JOIN_MS:
        return asked_group(links, name)
    shortest = number_of(known, "group.min.session.timeout.ms") or _SESSION_MS
    longest = number_of(known, "group.max.session.timeout.ms") or _SESSION_MS
    times = Session(min(max(_SESSION_MS, shortest), longest), _REBALANCE_MS)
    settings = settings_of(links.bootstrap)
    answer_s = patience_of(settings).answer_s + delay_ms / 1000
    patient = Bootstrap(links.bootstrap, replace(settings, request_timeout_s=answer_s))
    with closing(ClusterLinks(patient)) as waiting:
        return tried_group(waiting, name, times)
