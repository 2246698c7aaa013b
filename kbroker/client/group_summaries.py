"""All groups of a cluster, with their members and what they have committed, in a few requests to
each broker, however many groups it coordinates.

Law: a broker that is gone, or a group that this user may not see, leaves the others as they are.
The links know which brokers were silent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.topic_rows import rows_of
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from kbroker.protocol.schema import Message

Listed = ListGroupsResponse.ListedGroup
Offsets = Mapping[TopicPartition, int]
TellRefusal = Callable[[KafkaError], None]

_AT_ONCE = 200  # groups of a request
_CLASSIC, _NEW = "classic", "consumer"  # types, as their names are from Kafka 3.7 on
_WITH_OFFSETS = ("", _CLASSIC, _NEW)
_NO_OFFSETS: Final[Offsets] = {}
_FINE = (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)  # the latter: gone since it was listed


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """A group; `committed` holds the next offset by partition. What is None is not known; `state`
    is empty then.
    """

    name: str
    state: str
    coordinator: int
    members: int | None
    committed: Offsets | None


def group_summaries(
    links: ClusterLinks,
    brokers: Iterable[int],
    tell: TellRefusal,
    make_way: Callable[[], None] = lambda: None,
) -> dict[str, GroupSummary]:
    """Return the groups that these brokers coordinate, by name. `tell` gets what brokers refuse;
    `make_way` is called between requests.
    """
    found: dict[str, GroupSummary] = {}
    for broker_id in brokers:
        try:
            listed = _listed(links, broker_id)
            for some in _portions(listed, _AT_ONCE):
                found |= {each.name: each for each in _summaries(links, broker_id, some, tell)}
                make_way()
        except KafkaError as error:
            tell(error)
        except (OSError, ClientError):  # gone; its groups have gone to other brokers, or soon will
            continue
    return found


def _listed(links: ClusterLinks, broker_id: int) -> list[Listed]:
    answer = links.ask(broker_id, ListGroupsRequest())
    if answer.error_code not in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        raise KafkaError(ErrorCode(answer.error_code), f"broker {broker_id}")
    listed: list[Listed] = answer.groups
    return listed


def _portions(listed: Sequence[Listed], size: int) -> Iterator[Sequence[Listed]]:
    for start in range(0, len(listed), size):
        yield listed[start : start + size]


def _summaries(
    links: ClusterLinks, broker_id: int, listed: Sequence[Listed], tell: TellRefusal
) -> Iterator[GroupSummary]:
    names: defaultdict[str, list[str]] = defaultdict(list)  # by type
    for each in listed:
        names[each.group_type.casefold()].append(each.group_id)
    readers = [name for kind in _WITH_OFFSETS for name in names[kind]]
    committed = _unless_refused(partial(_committed, links, broker_id, readers), tell)
    described = {
        **_unless_refused(partial(_classic, links, broker_id, names[""] + names[_CLASSIC]), tell),
        **_unless_refused(partial(_new, links, broker_id, names[_NEW]), tell),
    }
    for each in listed:
        state, members = described.get(each.group_id, ("", None))
        yield GroupSummary(
            name=each.group_id,
            state=each.group_state or state,
            coordinator=broker_id,
            members=members,
            committed=committed.get(each.group_id),
        )


def _unless_refused(ask: Callable[[], dict[str, Any]], tell: TellRefusal) -> dict[str, Any]:
    """Return the answer; nothing if it is refused, as by a broker that is too old."""
    try:
        return ask()
    except KafkaError as error:
        tell(error)
        return {}


def _committed(
    links: ClusterLinks, broker_id: int, names: Sequence[str]
) -> dict[str, Offsets | None]:
    """Ask for the offsets of all at once; brokers before Kafka 3.0 take one group at a time."""
    if not names:
        return {}
    first, *others = names
    wanted = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=n, topics=None) for n in names]
    answer = links.ask(broker_id, OffsetFetchRequest(group_id=first, topics=None, groups=wanted))
    if answer.groups:
        return {each.group_id: _offsets(each) for each in answer.groups}
    found = {first: _offsets(answer)}
    for name in others:
        one = OffsetFetchRequest(group_id=name, topics=None)
        found[name] = _offsets(links.ask(broker_id, one))
    return found


def _offsets(group: Any) -> Offsets | None:
    if group.error_code not in _FINE:  # it has just got another coordinator, or is not for us
        return None
    return {
        place: row.committed_offset
        for place, row in rows_of(group.topics)
        if row.committed_offset >= 0
    } or _NO_OFFSETS


def _classic(links: ClusterLinks, broker_id: int, names: list[str]) -> dict[str, Any]:
    return _members(links, broker_id, DescribeGroupsRequest(groups=names)) if names else {}


def _new(links: ClusterLinks, broker_id: int, names: list[str]) -> dict[str, Any]:
    if not names:
        return {}
    from kbroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest

    return _members(links, broker_id, ConsumerGroupDescribeRequest(group_ids=names))


def _members(links: ClusterLinks, broker_id: int, request: Message) -> dict[str, tuple[str, int]]:
    """Return states and numbers of members, by group."""
    return {
        each.group_id: (each.group_state, len(each.members))
        for each in links.ask(broker_id, request).groups
        if each.error_code == ErrorCode.NONE
    }
