"""Operations and answers in kazoo's terms, and its errors in ours."""

from __future__ import annotations

import pytest
from kazoo import exceptions as kazoo_errors
from kazoo.protocol.serialization import CheckVersion, Create, Delete, SetData, Transaction
from kazoo.security import OPEN_ACL_UNSAFE

from kbroker.zk.ensemble import kazoo_requests as requests
from kbroker.zk.tree import (
    BadVersionError,
    CheckOp,
    CreateOp,
    DeleteOp,
    NodeExistsError,
    NodeTooLargeError,
    SessionExpiredError,
    SetOp,
    Stat,
    TreeError,
)


def test_one_operation_is_a_request_and_several_are_a_transaction() -> None:
    create = requests.transaction_request((CreateOp("/a", None, ephemeral=True),), "/kafka")
    several = requests.transaction_request(
        (
            CheckOp("/", 1),
            SetOp("/a", b"x", 2),
            DeleteOp("/b", 3),
            CreateOp("/c", b"", sequential=True),
        ),
        "/kafka",
    )

    assert create == Create("/kafka/a", None, OPEN_ACL_UNSAFE, 1)
    assert several == Transaction(
        [
            CheckVersion("/kafka", 1),
            SetData("/kafka/a", b"x", 2),
            Delete("/kafka/b", 3),
            Create("/kafka/c", b"", OPEN_ACL_UNSAFE, 2),
        ]
    )
    assert isinstance(requests.transaction_request((CheckOp("/a", 1),), ""), Transaction)


def test_a_refused_transaction_raises_the_first_error_with_its_place() -> None:
    ops = (CreateOp("/a"), CreateOp("/b"), CheckOp("/c", 1), DeleteOp("/d"))
    answer = [
        kazoo_errors.RolledBackError(),
        kazoo_errors.NodeExistsError(),
        kazoo_errors.RuntimeInconsistency(),
        kazoo_errors.RuntimeInconsistency(),
    ]

    with pytest.raises(NodeExistsError, match=r"^/b$") as refusal:
        requests.write_results(ops, answer)

    assert refusal.value.op_index == 1


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (kazoo_errors.BadVersionError(), BadVersionError),
        (kazoo_errors.SessionExpiredError(), SessionExpiredError),
        (kazoo_errors.ConnectionClosedError(), SessionExpiredError),
        (kazoo_errors.ConnectionLoss(), requests.AnswerLostError),
        (kazoo_errors.SessionMovedError(), requests.AnswerLostError),
        (kazoo_errors.NoAuthError(), requests.NoRightsError),
        (kazoo_errors.InvalidACLError(), requests.LoginRefusedError),
        (kazoo_errors.BadArgumentsError(), requests.RefusedByEnsembleError),
    ],
)
def test_errors_are_translated(error: Exception, expected: type[Exception]) -> None:
    assert type(requests.tree_error(error, "/a", 3)) is expected


def test_a_refusal_of_another_kind_says_which() -> None:
    error = requests.tree_error(kazoo_errors.NoAuthError(), "/a", 3)

    assert isinstance(error, TreeError)
    assert (str(error), error.path, error.op_index) == ("/a: NoAuthError", "/a", 3)


def test_a_request_that_a_server_would_drop_is_refused() -> None:
    requests.check_request_size((CreateOp("/a", bytes(1_048_000)),), "/kafka")
    with pytest.raises(NodeTooLargeError, match=r"^/a$"):
        requests.check_request_size((CreateOp("/a", bytes(1_048_001)),), "")
    with pytest.raises(NodeTooLargeError, match=r"^/b$") as refusal:
        requests.check_request_size((SetOp("/a", bytes(1000)), SetOp("/b", bytes(1_047_999))), "")
    assert refusal.value.op_index == 1
    with pytest.raises(NodeTooLargeError):
        requests.check_request_size([DeleteOp("/" + "p" * 1000)] * 1000, "")


def test_watches_are_set_in_requests_of_bounded_size() -> None:
    long = [f"/{'x' * 100}{number:04d}" for number in range(3000)]

    found = list(requests.set_watches_requests(5, (long, ["/e"], ["/c"])))

    assert [path for _, chunk in found for path in chunk] == [
        *((0, path) for path in long),
        (1, "/e"),
        (2, "/c"),
    ]
    assert all(len(request.serialize()) < 132 << 10 for request, _ in found)


def test_set_watches_has_the_bytes_of_the_protocol() -> None:
    request = requests.SetWatches(258, ["/a"], [], ["/b", "/"])

    assert request.serialize() == bytes.fromhex(
        "0000000000000102"  # since
        "00000001 00000002 2f61"
        "00000000"
        "00000002 00000002 2f62 00000001 2f"
    )


def test_paths_are_whole_with_the_chroot() -> None:
    assert requests.whole_path("/kafka", "/a") == "/kafka/a"
    assert requests.whole_path("/kafka", "/") == "/kafka"
    assert requests.whole_path("", "/") == "/"


def test_many_nodes_are_read_by_one_request() -> None:
    request = requests.get_many_request(["/a", "/é"])
    stat = "0000000000000001 0000000000000002 0000000000000003 0000000000000004"
    stat += "00000005 00000006 00000007 0000000000000008 00000009 0000000a 000000000000000b"

    assert request.type == 22
    assert request.serialize() == bytes.fromhex(
        "00000004 00 ffffffff 00000002 2f61 00"
        "00000004 00 ffffffff 00000003 2fc3a9 00"
        "ffffffff 01 ffffffff"
    )
    with_data, without, missing = request.deserialize(
        bytes.fromhex(
            "ffff"  # what is before the answer
            f"00000004 00 00000000 00000002 7879 {stat}"
            f"00000004 00 00000000 ffffffff {stat}"
            "ffffffff 00 ffffff9b ffffff9b"
            "ffffffff 01 ffffffff"
        ),
        2,
    )
    assert with_data == (
        b"xy",
        Stat(
            czxid=1, mzxid=2, ctime_ms=3, mtime_ms=4, version=5, cversion=6, ephemeral_owner=8,
            data_length=9, num_children=10,
        ),
    )  # fmt: skip
    assert without[0] is None
    assert isinstance(missing, kazoo_errors.NoNodeError)
