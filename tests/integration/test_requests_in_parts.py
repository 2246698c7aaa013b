"""A large request is answered as many small ones are, by every API that answers it in parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kbroker.apis import registry
from kbroker.apis.large_requests import LARGE_BYTES
from kbroker.apis.request_parts import Again, Parts, parts_in
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
)
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.schema import response_class
from tests.faults.loop_holds import Case, cases, say
from tests.faults.running_broker import RunningBroker

FEW = 250
MANY_TIMES = 8  # at least, so that an answer has several parts


def parts_of(case: Case) -> Parts:
    found = parts_in(case.api.parts, case.api.request_class, case.version)
    assert isinstance(found, Parts)
    return found


CASES = [
    case
    for api in registry.registered().values()
    if api.parts is not None
    for case in cases(api.name)
    if parts_in(api.parts, api.request_class, case.version) is not None
    and ".".join(field.name for field in case.path) == parts_of(case).asked
]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    directory = tmp_path_factory.mktemp("broker") / "data"
    broker = RunningBroker(directory, "--override", "auto.create.topics.enable=false").start()
    try:
        request = FindCoordinatorRequest(coordinator_keys=["g"])
        head = encode_request_header(RequestHeader(10, 4, 1, "c"))
        assert say(broker.port, encode(request, 4, head))  # there is a coordinator from now on
        yield broker.port
    finally:
        broker.end()


def frame_of(case: Case, entries: list[Any]) -> bytes:
    """A request with so many innermost entries."""
    request = case.request(1)
    *holders, array = (field.name for field in case.path)
    holder = request
    for name in holders:
        (holder,) = getattr(holder, name)
    setattr(holder, array, entries)
    head = encode_request_header(RequestHeader(case.api.key, case.version, 1, "c"))
    return encode(request, case.version, head)


def times_for_large(case: Case, few: list[Any]) -> int:
    """How many times so many entries make a large request."""
    return max(LARGE_BYTES // len(frame_of(case, few)) + 2, MANY_TIMES)


def answered(case: Case, port: int, entries: list[Any]) -> list[str]:
    """The innermost answers to so many innermost entries."""
    frame, version = frame_of(case, entries), case.version
    assert (len(frame) > LARGE_BYTES) is (len(entries) > FEW)
    data = say(port, frame)
    _, offset = decode_response_header(data, case.api.key, version)
    response, _ = decode(response_class(case.api.request_class), version, data, offset)
    found = [response]
    for name in parts_of(case).answered.split("."):
        found = [each for holder in found for each in getattr(holder, name)]
    return [repr(entry) for entry in found]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(str(case).split()))
def test_parts_make_the_same_answer(case: Case, port: int) -> None:
    many = times_for_large(case, case.entries(FEW)) * FEW
    entries = case.entries(many)

    large = answered(case, port, entries)

    small = [answered(case, port, entries[n : n + FEW]) for n in range(0, many, FEW)]
    assert large == [entry for answers in small for entry in answers]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(str(case).split()))
def test_names_that_are_all_the_same_have_the_same_answer(case: Case, port: int) -> None:
    few = case.entries(1) * FEW
    times = times_for_large(case, few)

    large = answered(case, port, few * times)

    small = answered(case, port, few)
    assert set(large) == set(small)
    assert len(large) == len(small) * (times if parts_of(case).again is Again.ANSWERED else 1)
