"""Addresses that clients are given, and what is at them. Pure.

A client uses the address that it was given only to ask for the others: if those do not work from
where it is, it connects and then hangs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kbroker.cli.doctor.finding import Finding, Severity
from kbroker.cli.doctor.observations import Observations, SeenBroker
from kbroker.cli.doctor.rules.doors import cause_of
from kbroker.wording import named

_MENDS = (
    "Set advertised.listeners of the broker (kbroker.advertise of kbroker) to an address that "
    "clients on this machine can reach; a broker for two networks needs a listener for each."
)


def closed_addresses(seen: Observations) -> Iterator[Finding]:
    """Find brokers that do not let us in at the address that clients are given."""
    for broker in seen.brokers:
        cause = cause_of(broker.door, seen.protocol)
        if cause is None:
            continue
        mends = _MENDS
        if cause.code == "port-closed":
            mends = f"Start the broker if it is down. Else: {_MENDS}"
        yield Finding(
            code=f"advertised-{cause.code}",
            severity=Severity.ERROR,
            subject=_subject(broker),
            seen=f"clients are given {broker.door.name} as the address of broker "
            f"{broker.node_id}: {cause.seen}",
            means="Clients connect to the first address and then hang or time out, as they write "
            f"to this broker and read from it at the address that they are given. {cause.means}",
            mends=mends,
        )


def loopback_addresses(seen: Observations) -> Iterator[Finding]:
    """Find brokers that were reached otherwise and give clients an address of the loopback, or one
    that is for listening only.
    """
    from_elsewhere = [door for door in seen.doors if door.lets_in and not door.is_loopback]
    for broker in seen.brokers:
        if broker.door.is_everywhere:
            yield Finding(
                code="advertised-everywhere",
                severity=Severity.ERROR,
                subject=_subject(broker),
                seen=f"clients are given {broker.door.name} as the address of broker "
                f"{broker.node_id}",
                means="That address means every interface to a broker that listens, and nothing, "
                "or the own machine, to a client.",
                mends=_MENDS,
            )
        elif broker.door.is_loopback and from_elsewhere:
            yield Finding(
                code="advertised-loopback",
                severity=Severity.WARNING if broker.door.lets_in else Severity.ERROR,
                subject=_subject(broker),
                seen=f"clients that connect to {from_elsewhere[0].name} are given "
                f"{broker.door.name} as the address of broker {broker.node_id}",
                means="Each client looks for the broker on its own machine: this works for nobody "
                "on another machine or in another container.",
                mends=_MENDS,
            )


def shared_addresses(seen: Observations) -> Iterator[Finding]:
    """Find addresses that clients are given of several brokers."""
    by_address: defaultdict[str, list[int]] = defaultdict(list)
    for broker in seen.brokers:
        by_address[broker.door.name].append(broker.node_id)
    for address, node_ids in by_address.items():
        if len(node_ids) > 1:
            yield Finding(
                code="advertised-twice",
                severity=Severity.ERROR,
                subject=address,
                seen=f"brokers {named(node_ids)} have the same address for clients",
                means="Requests for one of them reach another: clients get NOT_LEADER_OR_FOLLOWER "
                "again and again.",
                mends="Give each broker an advertised.listeners of its own.",
            )


def other_clusters(seen: Observations) -> Iterator[Finding]:
    """Find addresses at which a broker of another cluster answers."""
    wanted = seen.cluster.cluster_id if seen.cluster else None
    for broker in seen.brokers:
        if None not in (wanted, broker.door.cluster_id) and broker.door.cluster_id != wanted:
            yield Finding(
                code="advertised-other-cluster",
                severity=Severity.ERROR,
                subject=_subject(broker),
                seen=f"at {broker.door.name} answers a broker of cluster "
                f"{broker.door.cluster_id}, and this one is {wanted}",
                means="Clients write to another cluster and read from it, or are refused there.",
                mends=_MENDS,
            )


def other_brokers(seen: Observations) -> Iterator[Finding]:
    """Find addresses at which another broker of the cluster answers."""
    for broker in seen.brokers:
        is_ours = seen.cluster is None or broker.door.cluster_id in (None, seen.cluster.cluster_id)
        if broker.disowned is not None and is_ours:
            yield Finding(
                code="advertised-other-broker",
                severity=Severity.ERROR,
                subject=_subject(broker),
                seen=f"at {broker.door.name} answers another broker than {broker.node_id} "
                f"({broker.disowned})",
                means="Requests for one broker reach another, as behind a load balancer: clients "
                "get NOT_LEADER_OR_FOLLOWER again and again.",
                mends="Give each broker an address of its own, without a load balancer between "
                "clients and brokers: only the first address may be shared.",
            )


def _subject(broker: SeenBroker) -> str:
    return f"broker {broker.node_id}"
