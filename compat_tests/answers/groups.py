"""Requests about a group in each state that it can be in: not there, with offsets only, with a member
that has joined and not synced, stable, and after its only member left.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from compat_tests.answers.asking import Caller
from compat_tests.answers.parts import FULL, Values
from compat_tests.answers.stage import Stage
from compat_tests.wire.group_member import ASSIGNMENT, Member, subscription

OFFSET_COMMIT, JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, DELETE, OFFSET_DELETE = (
    8, 11, 12, 13, 14, 15, 42, 47,
)  # fmt: skip
KEYS = (OFFSET_COMMIT, JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, DELETE, OFFSET_DELETE)
_VERSIONS = {  # those that differ in more than their encoding
    OFFSET_COMMIT: (2, 5, 7, 9), JOIN: (2, 4, 5, 9), HEARTBEAT: (0, 3, 4), LEAVE: (0, 2, 3, 5),
    SYNC: (0, 3, 5), DESCRIBE: (0, 3, 5, 6), DELETE: (0, 2), OFFSET_DELETE: (0,),
}  # fmt: skip
_PATIENT = {"session_timeout": 300_000}

Prepared = tuple[str, str, int]  # group, member id, generation


def in_each_state(caller: Caller, key: int) -> None:
    """Ask a key about groups in each state, as their member, as nobody and as another member."""
    for version in _VERSIONS[key]:
        for state, prepare in _STATES.items():
            for who, claim in _CLAIMS.items():
                if key in (DESCRIBE, DELETE, OFFSET_DELETE) and who != "the member":
                    continue
                if caller.target.serves(key, version):
                    with ExitStack() as stack:
                        stage = Stage(
                            caller, f"{state.replace(' ', '-')}-{key}-{version}-{len(who)}"
                        )
                        stack.callback(stage.close)
                        values = _request(key, version, *claim(*prepare(stage)))
                        label = f"{_NAMES[key]}: {who} of a group that {state}"
                        caller.ask(label, key, version, **values)


def _request(key: int, version: int, group: str, member: str, generation: int) -> Values:
    named = {"group_id": group, "member_id": member}
    if key == DESCRIBE:
        return {"groups": [group]}
    if key == DELETE:
        return {"groups_names": [group]}
    if key == OFFSET_DELETE:
        return {
            "group_id": group,
            "topics": [{"name": FULL, "partitions": [{"partition_index": 0}]}],
        }
    if key == LEAVE:
        return named if version < 3 else {"group_id": group, "members": [{"member_id": member}]}
    if key == JOIN:
        again = {"rebalance_timeout": 1_000} if version >= 1 else {}
        protocols = [{"name": "range", "metadata": subscription()}]
        return {
            **named,
            **again,
            "session_timeout": 10_000,
            "protocol_type": "consumer",
            "protocols": protocols,
        }
    if key == OFFSET_COMMIT:
        part = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        topics = [{"name": FULL, "partitions": [part]}]
        return {**named, "generation_id_or_member_epoch": generation, "topics": topics}
    held = {**named, "generation_id": generation}
    if key == SYNC:
        if version >= 5:
            held |= {"protocol_type": "consumer", "protocol_name": "range"}
        held["assignments"] = [{"member_id": member, "assignment": ASSIGNMENT}]
    return held


def _missing(stage: Stage) -> Prepared:
    return stage.fresh("group"), "", -1


def _with_offsets(stage: Stage) -> Prepared:
    return stage.offsets(), "", -1


def _joined(stage: Stage) -> Prepared:
    name = stage.fresh("group")
    member = Member(stage.client(), stage.names.on_broker(name))
    member.join(**_PATIENT)
    return name, member.member_id, member.generation


def _stable(stage: Stage) -> Prepared:
    member = stage.member()
    return member.group, member.member_id, member.generation


def _left(stage: Stage) -> Prepared:
    group, member_id, generation = _joined(stage)
    known = Member(stage.client(), stage.names.on_broker(group))
    known.member_id = member_id
    known.leave()
    return group, member_id, generation


_NAMES = {
    OFFSET_COMMIT: "commit", JOIN: "join", HEARTBEAT: "heartbeat", LEAVE: "leave", SYNC: "sync",
    DESCRIBE: "describe", DELETE: "delete", OFFSET_DELETE: "delete offsets",
}  # fmt: skip
_STATES: dict[str, Callable[[Stage], Prepared]] = {
    "is not there": _missing,
    "has offsets only": _with_offsets,
    "gives an assignment": _joined,
    "is stable": _stable,
    "was left": _left,
}
_CLAIMS: dict[str, Callable[[str, str, int], Prepared]] = {
    "the member": lambda group, member, generation: (group, member, generation),
    "nobody": lambda group, _, __: (group, "", -1),
    "another member": lambda group, _, generation: (group, "unknown-member", generation),
    "a former self": lambda group, member, generation: (group, member, generation - 1),
}
