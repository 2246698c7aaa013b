"""Loads under 10,000 access rules, half of them about beginnings of names, beside the same load at a
broker of the same kind without an authorizer.

Whatever the loads make is for `User:ANONYMOUS` by two rules of their own; what no rule is about is
open, so that topics and rules can be made without a login.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from benchmarks import processes, raw_client
from benchmarks.generator import send
from benchmarks.loads import Figures
from benchmarks.processes import RunningBroker
from benchmarks.raw_client import RawClient
from benchmarks.request_kinds import Fetch, Heartbeat, Metadata, OffsetCommit, Produce
from benchmarks.request_loads import Effort, Measure, RequestLoad
from kbroker.acl.acl import AclOperation, AclResourceType, PatternType, Permission
from kbroker.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse

RULES = 10_000
_USERS = 100
_AT_ONCE = 500
_CREATE_ACLS, _VERSION = 30, 2
_AUTHORIZERS = {
    "kbroker": "kafka.security.authorizer.AclAuthorizer",
    "apache": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}
Creation = CreateAclsRequest.AclCreation


@contextmanager
def running(kind: str) -> Iterator[RunningBroker]:
    """A broker with these rules."""
    settings = {
        "authorizer.class.name": _AUTHORIZERS[kind],
        "allow.everyone.if.no.acl.found": "true",
    }
    with _started(kind, settings) as broker:
        make_rules(broker)
        yield broker


@contextmanager
def _started(kind: str, settings: dict[str, str]) -> Iterator[RunningBroker]:
    if kind == "apache":
        with processes.apache(settings) as broker:
            yield broker
        return
    overrides = [word for pair in settings.items() for word in ("--override", "=".join(pair))]
    with processes.kbroker(*overrides) as broker:
        yield broker


def make_rules(broker: RunningBroker, count: int = RULES) -> None:
    """Have as many rules, each about a name or a beginning of its own, but for two."""
    anonymous = "User:ANONYMOUS"
    rules = [
        _allowed(kind, "*", PatternType.LITERAL, anonymous)
        for kind in (AclResourceType.TOPIC, AclResourceType.GROUP)
    ]
    for number in range(count - len(rules)):
        pattern_type = PatternType.PREFIXED if number % 2 else PatternType.LITERAL
        name = f"kbroker-{number:05}"
        rules.append(
            _allowed(AclResourceType.TOPIC, name, pattern_type, f"User:user-{number % _USERS}")
        )
    client = RawClient(broker.address)
    for start in range(0, len(rules), _AT_ONCE):
        request = CreateAclsRequest(creations=rules[start : start + _AT_ONCE])
        answer = client.call(request, _CREATE_ACLS, _VERSION, CreateAclsResponse)
        refused = next((each for each in answer.results if each.error_code), None)
        if refused is not None:
            raise RuntimeError(f"no rule: {refused.error_message}")
    client.close()


def _allowed(
    kind: AclResourceType, name: str, pattern_type: PatternType, principal: str
) -> Creation:
    return Creation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern_type,
        principal=principal,
        host="*",
        operation=AclOperation.ALL,
        permission_type=Permission.ALLOW,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RuledLoad:
    """The requests of a load at both brokers in turn."""

    load: RequestLoad

    @property
    def name(self) -> str:
        """The other load's, with the rules in front."""
        return f"10,000 rules: {self.load.name}"

    @property
    def disk_bytes(self) -> int:
        """Twice what the other load fills."""
        return 2 * self.load.disk_bytes

    @contextmanager
    def prepared(self, broker: RunningBroker, effort: Effort) -> Iterator[Measure]:
        """Make what the load needs at both, and warm them."""
        with _started(broker.name, {}) as without:
            both = [without, broker]
            made = [self.load.sends.made(each, effort.most) for each in both]  # type: ignore[union-attr]  # no delivery here
            traffics = [self.load.traffic_of(each, effort) for each in made]
            sent = [
                send(
                    each.address, traffic, effort.warm_up_requests // 2, seconds=effort.warm_up_s
                ).sent
                for each, traffic in zip(both, traffics, strict=True)
            ]
            requests = effort.part_of(self.load.requests)

            def measure() -> Figures:
                took = []
                for at, each in enumerate(both):
                    traffic = replace(traffics[at], first=sent[at])
                    took.append(send(each.address, traffic, requests, [each.process.pid]))
                    sent[at] = took[at].sent
                figures = {
                    "cpu_us_per_request": took[1].cpu_us,
                    "requests_per_s": took[1].per_s,
                }
                if took[0].cpu_us:  # a broker may still be at the last requests, if there are few
                    figures["cpu_times_no_rules"] = took[1].cpu_us / took[0].cpu_us
                return figures

            yield measure
            raw_client.delete_topics(broker.address, made[1].topics)


_SIXTEEN_KB = Produce(batch_bytes=16_384, record_bytes=1_000)
_BATCHES = Fetch(batch_bytes=16_384, record_bytes=1_000, batches=1_000)

LOADS: list[RuledLoad] = [
    RuledLoad(load=load)
    for load in (
        RequestLoad(name="produce 16 KB, 5 in flight", sends=_SIXTEEN_KB, in_flight=5),
        RequestLoad(name="produce 16 KB, 1 in flight", sends=_SIXTEEN_KB, requests=10_000),
        RequestLoad(name="fetch 16 KB, 5 in flight", sends=_BATCHES, in_flight=5),
        RequestLoad(
            name="fetch 16 KB in a session, 1 in flight",
            sends=replace(_BATCHES, in_session=True),
            requests=10_000,
        ),
        RequestLoad(name="heartbeat, 1 in flight", sends=Heartbeat()),
        RequestLoad(name="commit, 1 in flight", sends=OffsetCommit()),
        RequestLoad(name="metadata of a topic, 1 in flight", sends=Metadata(topics=1)),
        RequestLoad(
            name="metadata of 10,000 topics, 1 in flight",
            sends=Metadata(topics=10_000, by_name=False),
            requests=100,
        ),
    )
]
