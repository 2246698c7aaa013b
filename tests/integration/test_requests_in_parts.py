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

MANY, FEW = 6_000, 250


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


def answered(case: Case, port: int, entries: list[Any]) -> list[str]:
    """The innermost answers to so many innermost entries."""
    request, version = case.request(1), case.version
    *holders, array = (field.name for field in case.path)
    holder = request
    for name in holders:
        (holder,) = getattr(holder, name)
    setattr(holder, array, entries)
    head = encode_request_header(RequestHeader(case.api.key, version, 1, "c"))
    frame = encode(request, version, head)
    assert (len(frame) > LARGE_BYTES) is (len(entries) == MANY)
    data = say(port, frame)
    _, offset = decode_response_header(data, case.api.key, version)
    response, _ = decode(response_class(case.api.request_class), version, data, offset)
    found = [response]
    for name in parts_of(case).answered.split("."):
        found = [each for holder in found for each in getattr(holder, name)]
    return [repr(entry) for entry in found]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(str(case).split()))
def test_parts_make_the_same_answer(case: Case, port: int) -> None:
    entries = case.entries(MANY)

    large = answered(case, port, entries)

    small = [answered(case, port, entries[n : n + FEW]) for n in range(0, MANY, FEW)]
    assert large == [entry for answers in small for entry in answers]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(str(case).split()))
def test_names_that_are_all_the_same_have_the_same_answer(case: Case, port: int) -> None:
    (entry,) = case.entries(1)

    large = answered(case, port, [entry] * MANY)

    small = answered(case, port, [entry] * FEW)
    times = MANY // FEW if parts_of(case).again is Again.ANSWERED else 1
    assert set(large) == set(small)
    assert len(large) == len(small) * times
