"""A large request is answered as many small ones are, by every API that answers it in parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kbroker.apis import registry
from kbroker.apis.large_requests import LARGE_BYTES
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

MANY, FEW = 12_000, 1_500
CASES = [
    case
    for api in registry.registered().values()
    if api.parts is not None
    for case in cases(api.name)
    if case.path[0].name == api.parts.asked and len(case.path) == 1
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
    request, version, parts = case.request(0), case.version, case.api.parts
    assert parts is not None
    setattr(request, parts.asked, entries)
    head = encode_request_header(RequestHeader(case.api.key, version, 1, "c"))
    frame = encode(request, version, head)
    assert (len(frame) > LARGE_BYTES) is (len(entries) == MANY)
    data = say(port, frame)
    _, offset = decode_response_header(data, case.api.key, version)
    response, _ = decode(response_class(case.api.request_class), version, data, offset)
    return [repr(entry) for entry in getattr(response, parts.answered)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(str(case).split()))
def test_parts_make_the_same_answer(case: Case, port: int) -> None:
    assert case.api.parts is not None
    entries = getattr(case.request(MANY), case.api.parts.asked)

    large = answered(case, port, entries)

    small = [answered(case, port, entries[n : n + FEW]) for n in range(0, MANY, FEW)]
    assert len(large) == MANY
    assert large == [entry for answers in small for entry in answers]
