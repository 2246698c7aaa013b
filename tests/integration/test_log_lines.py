"""The log of a broker process, as a program reads it: whatever clients call themselves."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from compat_tests.running.forked_kbroker import ForkedKbroker
from kbroker.model import EndPoint
from kbroker.peers.broker_client import BrokerClient
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest
from kbroker.protocol.messages.leave_group import LeaveGroupRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.schema import Message
from tests.fakes.running.waiting import until
from tests.faults.running_broker import RunningBroker

HOSTILE = 'x"}\n{"level": "error", "message": "all is lost"}\r\x1b[2J\u202e<b>'


async def _asked(broker: RunningBroker) -> None:
    """Have a topic refused, join a group and leave it, all under names that want to be noticed."""
    end_point = EndPoint(listener_name="PLAINTEXT", host="127.0.0.1", port=broker.port)
    client = BrokerClient(end_point, HOSTILE, 20_000)

    async def has_coordinator() -> bool:
        found = await client.send(FindCoordinatorRequest(key=HOSTILE), highest_version=3)
        return not found.error_code

    async def joined() -> str | None:
        answer = await client.send(_join(), highest_version=3)
        return None if answer.error_code else str(answer.member_id)

    topic = MetadataRequest.MetadataRequestTopic(name=HOSTILE)
    await client.send(MetadataRequest(topics=[topic]), highest_version=9)
    assert await until(has_coordinator)
    member_id = await until(joined)
    leaving = LeaveGroupRequest.MemberIdentity(member_id=member_id, reason=HOSTILE)
    await client.send(LeaveGroupRequest(group_id=HOSTILE, members=[leaving]))
    client.close()


def _join() -> Message:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    return JoinGroupRequest(
        group_id=HOSTILE,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[protocol],
    )


@pytest.fixture
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RunningBroker]:
    form = getattr(request, "param", "auto")
    broker = RunningBroker(tmp_path / "data", "--log-format", form)
    yield broker.start()
    broker.end()


async def test_a_log_that_is_no_terminal_is_json_with_the_reasons_of_what_happened(
    broker: RunningBroker,
) -> None:
    await _asked(broker)
    assert broker.stop() == 0

    lines = [line for line in broker.said().split("\n") if line.startswith("{")]
    found = [json.loads(line) for line in lines]

    assert all(line.isascii() for line in lines)
    assert not [line for line in found if line["level"] == "error"]
    causes = [(line.get("event"), line.get("cause")) for line in found if line.get("group")]
    assert causes == [("rebalance", "new_member"), ("rebalance", "member_left")]
    (refused,) = [line for line in found if line.get("event") == "request_refused"]
    assert (refused["api"], refused["version"]) == ("Metadata", 9)
    assert refused["code"] == "INVALID_TOPIC_EXCEPTION"
    assert refused["client_id"] == HOSTILE


@pytest.mark.parametrize("broker", ["text"], indirect=True)
async def test_a_log_of_text_has_no_line_that_a_client_wrote(broker: RunningBroker) -> None:
    await _asked(broker)
    assert broker.stop() == 0

    said = broker.said()

    assert "rebalances (generation 0): member" in said
    assert all(line.isprintable() for line in said.split("\n"))
    assert not [line for line in said.split("\n") if line.startswith('{"level"')]


async def test_a_terminal_has_why_a_group_rebalances_and_not_how_the_broker_starts(
    tmp_path: Path,
) -> None:
    terminal, said_to = os.openpty()
    arguments = ("start", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
    process = ForkedKbroker(*arguments, stdout=subprocess.PIPE, stderr=said_to, text=True)
    os.close(said_to)
    try:
        assert process.stdout is not None
        broker = RunningBroker(tmp_path / "data")
        broker.port = int(process.stdout.readline().rpartition(":")[2])
        await _asked(broker)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
    lines = _said_at(terminal).splitlines()

    events = [line for line in lines if " INFO kbroker.events.groups: Group " in line]
    assert ["joined" in line for line in events] == [True, False]
    assert len([line for line in lines if " INFO " in line]) == 3  # with what was refused


def _said_at(terminal: int) -> str:
    said = b""
    with suppress(OSError):  # the other side is closed
        while piece := os.read(terminal, 4_096):
            said += piece
    os.close(terminal)
    return said.decode()
