"""Questions that change quotas: whom they are for, keys and values at and beyond their limits, what
is only validated, entities that are named twice; and what is described afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from kbroker.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from kbroker.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from tests.integration.admin_requests import Question

Kind = AlterClientQuotasRequest
Entity = Sequence[tuple[str, str | None]]  # the name T stands for one of the question's own
Ops = Sequence[tuple[str, float | None]]  # None removes

OWN = "T"
SET: Ops = [("producer_byte_rate", 1024.0)]
ENTITIES: Mapping[str, Entity] = {
    "a user": [("user", OWN)],
    "a client": [("client-id", OWN)],
    "both": [("user", OWN), ("client-id", "c")],
    "both, the other way": [("client-id", "c"), ("user", OWN)],
    "a user with any client": [("user", OWN), ("client-id", None)],
    "an odd name": [("user", "a b@/%*~\u00f6<default>")],
    "nobody": [],
    "an empty user": [("user", "")],
    "an empty client": [("client-id", "")],
    "an unknown type": [("thing", OWN)],
    "an empty type": [("", OWN)],
    "an unknown type and a user": [("thing", OWN), ("user", OWN)],
    "a user twice": [("user", "another"), ("user", OWN)],
    "a dot": [("user", ".")],
    "two dots": [("client-id", "..")],
    "address and user": [("ip", "127.0.0.1"), ("user", OWN)],
    "address and client": [("ip", None), ("client-id", OWN)],
}
RATE = "connection_creation_rate"
ADDRESSES: Mapping[str, str | None] = {
    "an address": "10.1.2.3",
    "an odd address": "not an ip",
    "a host that is none": "no-such-host.invalid",
    "an IPv6 address": "::1",
    "an empty address": "",
}
KEYS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
VALUES = {
    "0": 0.0, "1": 1.0, "0.5": 0.5, "1.5": 1.5, "nearly 2": 2.0000001, "-1": -1.0, "-0.5": -0.5,
    "2^31": 2.0**31, "2^53+": 2.0**53 + 2, "2^63": 2.0**63, "1e308": 1e308, "NaN": math.nan,
    "infinite": math.inf, "minus infinite": -math.inf, "tiny": 1e-300, "1e7": 1e7, "0.001": 0.001,
}  # fmt: skip


def quota_questions() -> Iterator[Question]:
    """All of them."""
    for what, entity in ENTITIES.items():
        yield _question(f"quota of {what}", (entity, SET))
        yield _question(f"quota of {what}, removed", (entity, [("producer_byte_rate", None)]))
    for what, name in ADDRESSES.items():
        yield _question(f"quota of {what}", ([("ip", name)], [(RATE, 5.0)]))
    for key in (*KEYS, RATE, "nope", "", "SCRAM-SHA-256"):
        yield _question(f"quota of a user, {key or 'no key'}", (ENTITIES["a user"], [(key, 7.0)]))
        yield _question(
            f"quota of a user, {key or 'no key'} gone", (ENTITIES["a user"], [(key, None)])
        )
    for what, value in VALUES.items():
        for key in ("producer_byte_rate", "request_percentage"):
            yield _question(f"quota {key} of {what}", (ENTITIES["a user"], [(key, value)]))
        yield _question(f"quota {RATE} of {what}", ([("ip", "10.1.2.4")], [(RATE, value)]))
    user = ENTITIES["a user"]
    for what, ops in {
        "none": [],
        "set twice": [("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0)],
        "set and removed": [("producer_byte_rate", 1.0), ("producer_byte_rate", None)],
        "removed and set": [("producer_byte_rate", None), ("producer_byte_rate", 1.0)],
        "one of two wrong": [("producer_byte_rate", 1.0), ("nope", 1.0)],
    }.items():
        yield _question(f"quotas of a user, {what}", (user, ops))
    yield _question("quotas, no entries")
    yield _question("quotas, an entity twice", (user, SET), (user, [("request_percentage", 5.0)]))
    yield _question("quotas, an entity twice, once wrong", (user, [("nope", 1.0)]), (user, SET))
    yield _question(
        "quotas, one of two wrong", (user, SET), ([("client-id", OWN)], [("nope", 1.0)])
    )
    for what, ops in {"fine": SET, "wrong": [("producer_byte_rate", 0.5)]}.items():
        yield _question(f"quotas, only validated, {what}", (user, ops), only_checks=True)


def _question(name: str, *entries: tuple[Entity, Ops], only_checks: bool = False) -> Question:
    def requests(own: str) -> list[AlterClientQuotasRequest | DescribeClientQuotasRequest]:
        changed = Kind(
            entries=[
                Kind.EntryData(
                    entity=[
                        Kind.EntityData(entity_type=kind, entity_name=own if each == OWN else each)
                        for kind, each in entity
                    ],
                    ops=[
                        Kind.OpData(key=key, value=value or 0.0, remove=value is None)
                        for key, value in ops
                    ],
                )
                for entity, ops in entries
            ],
            validate_only=only_checks,
        )
        told = [_described(kind, each) for kind, each in (("user", own), ("client-id", own))]
        return [changed, *told]

    return Question(name, requests)


def _described(kind: str, name: str) -> DescribeClientQuotasRequest:
    component = DescribeClientQuotasRequest.ComponentData(
        entity_type=kind, match_type=0, match=name
    )
    return DescribeClientQuotasRequest(components=[component])
