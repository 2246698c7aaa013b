"""Requests of many entries are worked in turns, by every API that is served, also by one that says
nothing of many entries: what one turn of the loop does is counted in calls of functions, and what
is left to the collector of garbage in objects.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kbroker.apis.large_requests import LARGEST_BYTES
from kbroker.apis.request_parts import AS_A_WHOLE, Parts, parts_in
from kbroker.config.kafka_config import KafkaConfig
from kbroker.server.broker.kafka_server import KafkaServer
from tests.faults.largest_requests import is_beside, largest_frame
from tests.faults.loop_holds import Calls, Case, cases, say

IN_PARTS_BYTES, AS_A_WHOLE_BYTES = 20_000, 70_000  # a little above what makes a request large
MOST_CALLS = 50_000  # 5 to 10 ms
MOST_GARBAGE = 100  # objects in cycles, whatever the number of entries


@contextmanager
def nothing_collected() -> Iterator[None]:
    """Until this is over; what is there now stays, and is not looked at."""
    gc.collect()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()


def parts_of(case: Case) -> Parts | None:
    found = parts_in(case.api.parts, case.api.request_class, case.version)
    return found if isinstance(found, Parts) and found is not AS_A_WHOLE else None


def has_key(case: Case) -> bool:
    """Whether its API looks for what is named twice."""
    parts = parts_of(case)
    return parts is not None and parts.key is not None


def frame_of(case: Case, *, same: bool) -> bytes:
    size_bytes = AS_A_WHOLE_BYTES if parts_of(case) is None else IN_PARTS_BYTES
    if is_beside(case):  # of which an entry may have many
        size_bytes = LARGEST_BYTES
    return largest_frame(case, size_bytes, same)[0]


def answered(port: int, frame: bytes) -> None:
    with suppress(ConnectionError):  # it is refused
        say(port, frame)


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[int]:
    values = {
        "log.dirs": str(tmp_path),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "auto.create.topics.enable": "false",
    }
    server = KafkaServer(KafkaConfig.for_profile("dev", values))
    await server.startup()
    yield server.end_points[0].port
    await server.shutdown()


@pytest.mark.timeout(400)  # at a load of 20 it takes 90 s
async def test_no_turn_works_all_entries_of_a_request(port: int) -> None:
    calls, too_busy, littered = Calls(), {}, {}
    asked, apis = set(), set()
    with nothing_collected():
        for case in sorted(cases(None), key=lambda case: (case.api.key, -case.version)):
            array = (case.api.name, *(field.name for field in case.path))
            if array in asked:
                continue  # by a newer version
            asked.add(array)
            for same in (False, True) if has_key(case) else (False,):
                frame = frame_of(case, same=same)
                if case.api.name not in apis:  # what is imported, or made once
                    apis.add(case.api.name)
                    await asyncio.to_thread(answered, port, frame)
                gc.collect()
                gc.freeze()
                with calls.counted():
                    await asyncio.to_thread(answered, port, frame)
                garbage = gc.collect()
                name = f"{case} {'same' if same else 'apart'}"
                if calls.most > MOST_CALLS:
                    too_busy[name] = calls.most
                if garbage > MOST_GARBAGE:
                    littered[name] = garbage

    assert too_busy == {}
    assert littered == {}
