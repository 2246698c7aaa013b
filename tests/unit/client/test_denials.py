"""What answers say of missing rights, in sentences with the command that gives them."""

from __future__ import annotations

import pytest

from kbroker.acl.acl import AclOperation, AclResourceType
from kbroker.apis import registry
from kbroker.client.connection_settings import ConnectionSettings, Tls
from kbroker.client.denials import (
    OPERATIONS,
    Denial,
    denial_to_a_member,
    denials_in,
    principal_with,
)
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kbroker.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kbroker.sasl.login import Login
from tests.docs.generated import rights_of

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
CLUSTER = AclResourceType.CLUSTER


def committed(*codes: ErrorCode) -> OffsetCommitResponse:
    topic = OffsetCommitResponse.OffsetCommitResponseTopic
    partition = OffsetCommitResponse.OffsetCommitResponsePartition
    return OffsetCommitResponse(
        topics=[
            topic(name=f"t{number}", partitions=[partition(error_code=code)])
            for number, code in enumerate(codes)
        ]
    )


def test_denials_name_what_was_refused_where_the_answer_or_the_request_does() -> None:
    request = OffsetCommitRequest(group_id="g")
    answer = committed(
        ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NONE, ErrorCode.GROUP_AUTHORIZATION_FAILED
    )
    assert list(denials_in(request, answer)) == [
        Denial(TOPIC, AclOperation.READ, "t0"),
        Denial(GROUP, AclOperation.READ, "g"),
    ]
    assert list(denials_in(OffsetCommitRequest, answer))[1] == Denial(GROUP, AclOperation.READ)
    assert list(denials_in(request, committed(ErrorCode.UNKNOWN_MEMBER_ID))) == []


def test_a_code_of_the_whole_answer_is_about_what_the_request_names() -> None:
    coordinator = FindCoordinatorResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    (of_key,) = denials_in(FindCoordinatorRequest(key="g"), coordinator)
    cluster = InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    (of_cluster,) = denials_in(InitProducerIdRequest(transactional_id=None), cluster)

    assert of_key == Denial(GROUP, AclOperation.DESCRIBE, "g")
    assert of_cluster == Denial(CLUSTER, AclOperation.IDEMPOTENT_WRITE)


@pytest.mark.parametrize(
    ("denial", "sentence"),
    [
        (
            Denial(TOPIC, AclOperation.WRITE, "orders"),
            "User:ann needs write on topic orders: "
            "`kbroker acl allow User:ann write --topic orders` gives it",
        ),
        (
            Denial(GROUP, AclOperation.READ, "a b"),
            "User:ann needs read on group a b: "
            "`kbroker acl allow User:ann read --group 'a b'` gives it",
        ),
        (
            Denial(CLUSTER, AclOperation.ALTER_CONFIGS),
            "User:ann needs alter-configs on the cluster: "
            "`kbroker acl allow User:ann alter-configs --cluster` gives it",
        ),
        (
            Denial(TOPIC, AclOperation.READ),
            "User:ann needs read on topic: `kbroker acl allow User:ann read --topic NAME` gives it",
        ),
        (
            Denial(TOPIC, None, "t"),
            "User:ann needs a right to topic t: `kbroker acl --help` says how it is given",
        ),
    ],
)
def test_a_denial_says_who_needs_what_and_how_it_is_given(denial: Denial, sentence: str) -> None:
    assert denial.sentence("User:ann") == sentence


def test_the_principal_is_said_if_it_is_known_before_a_broker_makes_it() -> None:
    login = Login(mechanism="PLAIN", username="ann", password="x")
    with_certificate = ConnectionSettings(tls=Tls(certificate_file="ann.pem"))

    assert principal_with(ConnectionSettings(tls=Tls(), login=login)) == "User:ann"
    assert principal_with(ConnectionSettings(tls=Tls())) == "User:ANONYMOUS"
    assert principal_with(with_certificate) is None
    assert principal_with(ConnectionSettings(login=Login(mechanism="OAUTHBEARER"))) is None
    said = Denial(TOPIC, AclOperation.READ, "t").sentence(None)
    assert said.startswith("you need read on topic t: `kbroker acl allow PRINCIPAL read --topic t`")


def test_what_kafka_python_was_refused_is_a_denial() -> None:
    class RefusedError(Exception):
        errno = 29

    assert denial_to_a_member(RefusedError({"t"})) == Denial(TOPIC, AclOperation.READ, "t")
    assert denial_to_a_member(RefusedError()) == Denial(TOPIC, AclOperation.READ)
    assert denial_to_a_member(ValueError("no")) is None


def test_operations_are_those_that_handlers_ask_for() -> None:
    served = registry.registered()
    wrong = [
        (key.name, kind.name, operation.name)
        for key, operations in OPERATIONS.items()
        if key in served
        for kind, operation in operations.items()
        if (operation, kind) not in rights_of(served[key])
    ]
    assert wrong == []
