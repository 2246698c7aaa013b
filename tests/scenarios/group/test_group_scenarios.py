"""Runs the transcripts in this folder: requests to a group, its answers, timers and appends."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from kbroker.config.group_config import GroupConfig
from kbroker.coordinator.group import sessions
from kbroker.coordinator.group.group import Group
from kbroker.coordinator.group.join_sync import (
    JoinAttempt,
    StaticMemberStored,
    join,
    on_static_member_refused,
    on_static_member_stored,
    sync,
)
from kbroker.coordinator.group.rebalance import (
    AssignmentStored,
    GroupStep,
    TimerKey,
    on_assignment_stored,
)
from kbroker.coordinator.runtime.effects import (
    Append,
    CancelTimer,
    Effect,
    Happened,
    Instant,
    Reply,
    SetTimer,
)
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.protocol.messages.sync_group import SyncGroupRequest
from tests.scenarios.transcript import check, played, transcripts


class Transcript:
    """A group machine behind a line-based language.

    Appends are outstanding until they are `stored`, `late` (in the log, but not confirmed in time),
    or `failed`.
    """

    def __init__(self) -> None:
        self.group = Group("g")
        self.settings: dict[str, int] = {"group_initial_rebalance_delay_ms": 0}
        self.now_ms = 0.0
        self.ids = 0
        self.timers: dict[TimerKey, float] = {}
        self.appends: list[Append] = []
        self.out: list[str] = []

    async def run(self, line: str) -> list[str]:
        self.out = []
        name, *words = shlex.split(line)
        fields = dict(word.split("=", 1) for word in words if "=" in word)
        getattr(self, f"on_{name}")([word for word in words if "=" not in word], fields)
        if name != "set":
            self.out.append(self.state())
        return self.out

    def state(self) -> str:
        group = self.group
        members = " ".join(
            name + ("(leader)" if group.is_leader(name) else "") for name in group.members
        )
        return f"  {group.state.value} generation={group.generation_id} members=[{members}]"

    def step(self) -> GroupStep:
        config = GroupConfig(**self.settings)
        return GroupStep(self.group, config, Instant(int(self.now_ms), self.now_ms))

    # ---- inputs

    def on_set(self, _words: list[str], fields: dict[str, str]) -> None:
        self.settings.update({name: int(value) for name, value in fields.items()})

    def on_join(self, words: list[str], fields: dict[str, str]) -> None:
        self.ids += 1
        request = JoinGroupRequest(
            group_id="g",
            member_id=words[0] if words else "",
            group_instance_id=fields.get("instance"),
            session_timeout_ms=int(fields.get("session", 10_000)),
            rebalance_timeout_ms=int(fields.get("rebalance", 60_000)),
            protocol_type=fields.get("type", "test"),
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(
                    name=name, metadata=fields.get("metadata", "").encode()
                )
                for name in fields.get("protocols", "range").split(",")
            ],
            reason=fields.get("reason"),
        )
        attempt = JoinAttempt(
            correlation=f"join#{self.ids}",
            request=request,
            api_version=int(fields.get("version", 3)),
            client_id="c",
            client_host="/h",
            new_member_id=f"m{self.ids}",
        )
        step = self.step()
        join(step, attempt)
        self.show(step.effects)

    def on_sync(self, words: list[str], fields: dict[str, str]) -> None:
        request = SyncGroupRequest(
            group_id="g",
            member_id=words[0],
            generation_id=int(fields["generation"]),
            group_instance_id=fields.get("instance"),
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=m, assignment=a.encode())
                for m, a in (each.split(":") for each in words[1:])
            ],
        )
        step = self.step()
        sync(step, f"sync {words[0]}", request)
        self.show(step.effects)

    def on_heartbeat(self, words: list[str], fields: dict[str, str]) -> None:
        request = HeartbeatRequest(
            member_id=words[0],
            group_instance_id=fields.get("instance"),
            generation_id=int(fields["generation"]),
        )
        code = sessions.heartbeat(self.group, request, self.now_ms)
        self.out.append(f"  {code.name}")

    def on_leave(self, words: list[str], fields: dict[str, str]) -> None:
        leaving = SimpleNamespace(
            member_id=words[0] if words else "",
            group_instance_id=fields.get("instance"),
            reason=fields.get("reason"),
        )
        step = self.step()
        codes = sessions.leave_group(step, [leaving])
        self.out.append(f"  {codes[0].name}")
        self.show(step.effects)

    def on_stored(self, _words: list[str], _fields: dict[str, str]) -> None:
        self.finish_append(ErrorCode.NONE)

    def on_late(self, words: list[str], _fields: dict[str, str]) -> None:
        self.finish_append(ErrorCode[words[0]])

    def on_failed(self, words: list[str], _fields: dict[str, str]) -> None:
        self.finish_append(ErrorCode[words[0]], is_in_log=False)

    def finish_append(self, error: ErrorCode, *, is_in_log: bool = True) -> None:
        token = self.appends.pop(0).token
        step = self.step()
        if isinstance(token, AssignmentStored):
            on_assignment_stored(step, token, error)
        elif isinstance(token, StaticMemberStored):
            heard = on_static_member_stored if is_in_log else on_static_member_refused
            heard(step, token, error)
        self.show(step.effects)

    def on_wait(self, words: list[str], _fields: dict[str, str]) -> None:
        end_ms = self.now_ms + float(words[0])
        while self.timers:
            key = min(self.timers, key=lambda each: self.timers[each])
            if self.timers[key] > end_ms:
                break
            self.now_ms = self.timers.pop(key)
            self.out.append(f"  at {self.now_ms:.0f}: {key.kind.value} {key.member_id}".rstrip())
            step = self.step()
            sessions.on_timer(step, key)
            self.show(step.effects)
        self.now_ms = end_ms

    # ---- effects

    def show(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Reply):
                self.out.append(f"  {effect.correlation} -> {answer(effect.response)}")
            elif isinstance(effect, SetTimer):
                assert isinstance(effect.key, TimerKey)
                self.timers[effect.key] = effect.deadline_ms
                key = f"{effect.key.kind.value} {effect.key.member_id}".rstrip()
                self.out.append(f"  set timer {key} for {effect.deadline_ms:.0f}")
            elif isinstance(effect, CancelTimer):
                self.timers.pop(effect.key, None)  # type: ignore[arg-type]
            elif isinstance(effect, Happened):
                self.out.append(f"  {effect.event.sentence()}")
            else:
                self.appends.append(effect)
                self.out.append(f"  append {type(effect.token).__name__}")


def answer(response: object) -> str:
    code = ErrorCode(response.error_code)  # type: ignore[attr-defined]
    if code is not ErrorCode.NONE:
        member_id = getattr(response, "member_id", "")
        return f"{code.name} {member_id}".rstrip()
    if isinstance(response, JoinGroupResponse):
        members = " ".join(member.member_id for member in response.members)
        skip = " skip_assignment" if response.skip_assignment else ""
        return (
            f"generation={response.generation_id} protocol={response.protocol_name}"
            f" leader={response.leader} me={response.member_id} members=[{members}]{skip}"
        )
    return f"assignment={response.assignment.decode()}"  # type: ignore[attr-defined]


@pytest.mark.parametrize(**transcripts(__file__))
def test_transcript_goes_as_written(path: Path) -> None:
    check(path, lambda text: played(text, Transcript().run))
