"""Users with SCRAM credentials, as a running cluster has them: described and changed (KIP-554).

Law: a password leaves this process salted only, and is in no error.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping

from kbroker.client.cluster_configs import Resource, describe_configs
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.cluster_requests import ask_controller
from kbroker.config.config_resources import ResourceType
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kbroker.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kbroker.sasl.scram_keys import MECHANISM_NUMBERS, OWN_SALT_BYTES, SCRAM_MECHANISMS

Users = Mapping[str, Mapping[str, int]]
"""Iterations of credentials, by user and mechanism."""
Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion

_OFFER = "sasl.enabled.mechanisms"  # with the prefix of a listener, too
_NUMBERS = {mechanism.sasl_name: number for number, mechanism in MECHANISM_NUMBERS.items()}


def described_users(links: ClusterLinks) -> Users:
    """Return all users that have credentials. Raises OSError, and KafkaError if that is refused."""
    answer: DescribeUserScramCredentialsResponse = links.ask_any(
        DescribeUserScramCredentialsRequest(users=None)
    )
    if answer.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(answer.error_code), answer.error_message)
    return {
        result.user: {
            MECHANISM_NUMBERS[info.mechanism].sasl_name: info.iterations
            for info in result.credential_infos
            if info.mechanism in MECHANISM_NUMBERS
        }
        for result in answer.results
    }


def offered_mechanisms(links: ClusterLinks) -> tuple[str, ...]:
    """Return the mechanisms of SCRAM that listeners of a broker offer, as its settings have them.
    Raises OSError, and KafkaError if that is refused.
    """
    broker = min(each.node_id for each in links.describe(()).brokers)
    (settings,) = describe_configs(links, [Resource(ResourceType.BROKER, str(broker))]).values()
    values = (each.value or "" for each in settings if each.name.endswith(_OFFER))
    offered = {name.strip() for value in values for name in value.split(",")}
    return tuple(name for name in SCRAM_MECHANISMS if name in offered)


def altered_users(
    links: ClusterLinks, request: AlterUserScramCredentialsRequest
) -> dict[str, KafkaError | None]:
    """Change credentials; returns None for each user that was changed, or why not. In Kafka 3.9
    only the controller does it, and Kafka 4 takes one mechanism of a user at a time. Raises as
    `ask_controller`.
    """
    outcomes = _altered(links, request)
    refused = {
        user
        for user, error in outcomes.items()
        if error is not None and error.code is ErrorCode.DUPLICATE_RESOURCE
    }
    for number in MECHANISM_NUMBERS:
        if not refused:
            break
        part = AlterUserScramCredentialsRequest(
            deletions=[d for d in request.deletions if d.mechanism == number and d.name in refused],
            upsertions=[
                u for u in request.upsertions if u.mechanism == number and u.name in refused
            ],
        )
        found = _altered(links, part)
        outcomes |= found
        refused -= {user for user, error in found.items() if error is not None}
    return outcomes


def _altered(
    links: ClusterLinks, request: AlterUserScramCredentialsRequest
) -> dict[str, KafkaError | None]:
    answer: AlterUserScramCredentialsResponse = ask_controller(links, request)
    return {
        each.user: KafkaError(ErrorCode(each.error_code), each.error_message)
        if each.error_code
        else None
        for each in answer.results
    }


def with_password(
    user: str, password: str, mechanisms: Iterable[str], iterations: int
) -> AlterUserScramCredentialsRequest:
    """Return the request that gives a user this password, which takes about a microsecond for each
    iteration and mechanism.
    """
    upsertions = []
    for name in mechanisms:
        number, salt = _NUMBERS[name], secrets.token_bytes(OWN_SALT_BYTES)
        salted = MECHANISM_NUMBERS[number].salted(password, salt, iterations)
        upsertions.append(
            Upsertion(
                name=user,
                mechanism=number,
                iterations=iterations,
                salt=salt,
                salted_password=salted,
            )
        )
    return AlterUserScramCredentialsRequest(upsertions=upsertions)


def without(users: Users) -> AlterUserScramCredentialsRequest:
    """Return the request that takes these credentials from their users."""
    return AlterUserScramCredentialsRequest(
        deletions=[
            Deletion(name=user, mechanism=_NUMBERS[mechanism])
            for user, mechanisms in users.items()
            for mechanism in mechanisms
        ]
    )
