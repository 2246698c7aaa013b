"""Errors of the client library are one sentence for people."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator

import pytest
from kafka.errors import KafkaConnectionError, NodeNotReadyError

from kbroker.cli.arguments.connection import (
    CONTROLLER_MOVED,
    CommandError,
    ExitCode,
    client_errors,
    link_errors,
)
from kbroker.errors import ErrorCode, KafkaError


@pytest.fixture
def address() -> Iterator[str]:
    """Where somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def said(address: str, error: Exception) -> CommandError:
    with pytest.raises(CommandError) as refused, client_errors(address):
        raise error
    return refused.value


def test_an_error_of_our_own_is_not_dressed_up(address: str) -> None:
    with pytest.raises(RuntimeError, match="a bug"), client_errors(address):
        raise RuntimeError("a bug")


def test_a_broker_behind_the_address_that_cannot_be_reached_is_told_apart(address: str) -> None:
    behind = said(address, KafkaConnectionError("111 ECONNREFUSED"))
    there = said(address, KafkaConnectionError("closed"))
    again = said(address, NodeNotReadyError(7))
    nobody = said(address, NodeNotReadyError("No node_id provided"))

    assert "names another broker that cannot be reached" in str(behind)
    assert "another broker that cannot be reached (broker 7 takes no connection)" in str(again)
    assert "cannot be reached (no broker takes a connection)" in str(nobody)
    assert again.code == ExitCode.CANNOT_CONNECT
    assert "no Kafka broker answers there" in str(there)
    assert (behind.code, there.code) == (ExitCode.CANNOT_CONNECT, ExitCode.CANNOT_CONNECT)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_an_output_that_has_no_room_is_not_laid_on_a_broker(number: int) -> None:
    error = OSError(number, "no room")
    with pytest.raises(OSError, match="no room") as raised, link_errors("h:1"):
        raise error

    assert raised.value is error


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (
            TimeoutError("h:1 gave no answer to Metadata"),
            ExitCode.TIMEOUT,
            "h:1 did not answer in time: h:1 gave no answer to Metadata",
        ),
        (
            ConnectionRefusedError("h:2: Connection refused"),
            ExitCode.CANNOT_CONNECT,
            "a broker of h:1 cannot be reached: h:2: Connection refused",
        ),
    ],
)
def test_what_ends_a_link_is_told_with_its_exit_code(
    error: OSError, code: ExitCode, sentence: str
) -> None:
    with pytest.raises(CommandError) as refused, link_errors("h:1"):
        raise error

    assert (refused.value.message, refused.value.code) == (sentence, code)


@pytest.mark.parametrize(
    ("refusal", "sentence"),
    [
        (KafkaError(ErrorCode.NOT_CONTROLLER), f"{CONTROLLER_MOVED} (NOT_CONTROLLER)"),
        (KafkaError(ErrorCode.NOT_CONTROLLER, "why"), "NOT_CONTROLLER: why"),
        (KafkaError(ErrorCode.INVALID_REQUEST), "INVALID_REQUEST"),
    ],
    ids=str,
)
def test_a_controller_that_is_none_now_is_told_in_words(refusal: KafkaError, sentence: str) -> None:
    with pytest.raises(CommandError) as refused, link_errors("h:1"):
        raise refusal

    assert str(refused.value) == sentence
    assert refused.value.code == ExitCode.ITEM_FAILED
