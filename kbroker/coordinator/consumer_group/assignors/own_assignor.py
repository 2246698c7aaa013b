"""OwnAssignor: assigns by code of the operator, which `group.consumer.assignors` names.

Pure. Law: whatever that code does wrong is an AssignorError with a sentence. Nobody gets a
partition that does not exist, that another gets, or of a topic to which it does not subscribe;
Kafka takes any answer. An answer may leave partitions out, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from kbroker.coordinator.consumer_group.assignors.assignor import (
    Assignment,
    AssignorError,
    GroupSpec,
    Topics,
)
from kbroker.wording import uuid_text

_ERROR_CHARACTERS: Final = 200


class OwnAssignor:
    """An assignor with code of the operator's."""

    def __init__(self, name: str, maker: Any, setting: str) -> None:
        self.name, self.setting = name, setting
        self._assign = maker.assign

    def assign(self, spec: GroupSpec, topics: Topics) -> dict[str, Assignment]:
        """Return the new target of each member; one that is not in the answer gets nothing."""
        try:
            answer = self._assign(_read_only(spec), topics)
        except AssignorError:
            raise
        except BaseException as error:  # `sys.exit` must not end the thread it runs on
            raise AssignorError(f"{self.name} raised {error!r}"[:_ERROR_CHARACTERS]) from error
        try:
            return _checked(answer, spec, topics)
        except AssignorError as error:
            raise AssignorError(f"{self.name} {error}") from None


def _read_only(spec: GroupSpec) -> GroupSpec:
    """The group, in which nothing of the coordinator's can be changed."""
    members = {
        member_id: member._replace(assigned=MappingProxyType(member.assigned))
        for member_id, member in spec.members.items()
    }
    return spec._replace(members=members)


def _checked(answer: object, spec: GroupSpec, topics: Topics) -> dict[str, Assignment]:
    if not isinstance(answer, Mapping):
        raise AssignorError(f"returned {type(answer).__name__}, and not a dict by member")
    for member_id in answer:
        if member_id not in spec.members:
            raise AssignorError(f"assigned to {member_id!r}, who is not a member")
    owners: dict[UUID, dict[int, str]] = {}
    return {
        member_id: _of_member(
            member_id, answer.get(member_id, {}), member.topic_ids, owners, topics
        )
        for member_id, member in spec.members.items()
    }


def _of_member(
    member_id: str,
    given: object,
    topic_ids: frozenset[UUID],
    owners: dict[UUID, dict[int, str]],
    topics: Topics,
) -> Assignment:
    if not isinstance(given, Mapping):
        raise AssignorError(f"gave {member_id} {type(given).__name__}, and not a dict by topic id")
    found = {}
    for topic_id, partitions in given.items():
        if topic_id not in topic_ids:
            shown = uuid_text(topic_id) if isinstance(topic_id, UUID) else repr(topic_id)
            raise AssignorError(f"gave {member_id} topic {shown}, to which it is not subscribed")
        mine = _numbers(partitions, topics.partition_count(topic_id))
        if mine is None:
            raise AssignorError(
                f"gave {member_id} partitions of topic {uuid_text(topic_id)} that do not exist"
            )
        taken = owners.setdefault(topic_id, {})
        twice = next((partition for partition in mine if partition in taken), None)
        if twice is not None:
            raise AssignorError(
                f"gave partition {twice} of topic {uuid_text(topic_id)} to {taken[twice]}"
                f" and to {member_id}"
            )
        taken.update(dict.fromkeys(mine, member_id))
        if mine:
            found[topic_id] = mine
    return found


def _numbers(partitions: object, count: int) -> frozenset[int] | None:
    if not isinstance(partitions, Iterable):
        return None
    numbers = list(partitions)
    if any(type(number) is not int or not 0 <= number < count for number in numbers):
        return None
    return frozenset(numbers)
