"""Groups as `kafka-consumer-groups` prints them: columns that are as wide as Kafka's.

Law: a line of a table begins with its line feed, as there; the last one is the caller's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kbroker.client.consumer_groups import ConsumerGroup, GroupMember, lag
from kbroker.model import TopicPartition

_LEAST = 15  # columns of a name
_NONE = "-"
_OFFSETS = (
    "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST",
    "CLIENT-ID",
)  # fmt: skip
_MEMBERS = ("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS")
_STATIC_MEMBERS = ("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS")
_RESET = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
_WIDTHS = {
    "PARTITION": 10, "GROUP-INSTANCE-ID": 17, "COORDINATOR (ID)": 25, "ASSIGNMENT-STRATEGY": 20,
    "STATE": 20, "TARGET-ASSIGNMENT-EPOCH": 25, "CURRENT-ASSIGNMENT": 20,
}  # fmt: skip
_TARGET_WIDTH = 20
_NARROW = 15  # what has no name in it never grows
_NUMBERS = ("PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "#PARTITIONS")


def offsets_table(
    group: ConsumerGroup,
    ends: Mapping[TopicPartition, int],
    epochs: Mapping[TopicPartition, int] | None = None,
) -> str:
    """Return the partitions of a group; nothing if it has none, and no members. `epochs`: those of
    the leaders under which offsets were committed, to be shown too; negative if not known.
    """
    owners = group.owners
    rows = [
        [
            group.name,
            place.topic,
            str(place.partition),
            *([] if epochs is None else [_epoch(epochs.get(place))]),
            _text(committed),
            _text(ends.get(place)),
            _text(lag(committed, ends.get(place))),
            *_who(owners.get(place)),
        ]
        for place, committed in sorted(group.committed.items())
    ]
    rows += [
        [group.name, *[_NONE] * (5 if epochs is None else 6), *_who(member)]
        for member in group.members
        if not member.partitions
    ]
    heads = _OFFSETS if epochs is None else (*_OFFSETS[:3], "LEADER-EPOCH", *_OFFSETS[3:])
    return _table(heads, rows, ends_open=True) if rows else ""


def members_table(group: ConsumerGroup) -> str:
    """Return the members of a group; only the heads if it has none."""
    return _table(*_members(group), ends_open=False)


def verbose_members_table(group: ConsumerGroup) -> str:
    """Return the members of a group, with the partitions that each reads, and in a group of KIP-848
    what it shall read, and the epochs of both. UPGRADED if only some speak its protocol.
    """
    heads, rows = _members(group)
    targets = [_target(member) for member in group.members]
    width = max(map(len, targets), default=0)
    protocols = [member.way.protocol if member.way is not None else "" for member in group.members]
    is_mixed = {"classic", "consumer"}.issubset(protocols)
    found = []
    for row, member, target, protocol in zip(rows, group.members, targets, protocols, strict=True):
        way = member.way
        ends = [] if not is_mixed else [str(protocol == "consumer").lower()]
        found.append(
            [
                *row,
                _text(None if way is None else way.epoch),
                _assignment(member.partitions),
                _text(None if way is None or group.epochs is None else group.epochs.target),
                target.ljust(max(width, _TARGET_WIDTH)),
                *ends,
            ]
        )
    more = (
        "CURRENT-EPOCH",
        "CURRENT-ASSIGNMENT",
        "TARGET-EPOCH",
        "TARGET-ASSIGNMENT".ljust(max(width, _TARGET_WIDTH)),
        *(["UPGRADED"] if is_mixed else []),
    )
    return _table((*heads, *more), found, ends_open=True)


def _target(member: GroupMember) -> str:
    return _NONE if member.way is None else _assignment(member.way.target)


def _members(group: ConsumerGroup) -> tuple[tuple[str, ...], list[list[str]]]:
    is_static = any(member.instance_id for member in group.members)
    rows = [
        [
            group.name,
            member.member_id,
            *([member.instance_id or ""] if is_static else []),
            member.host,
            member.client_id,
            str(len(member.partitions)),
        ]
        for member in group.members
    ]
    return _STATIC_MEMBERS if is_static else _MEMBERS, rows


def _assignment(places: Iterable[TopicPartition]) -> str:
    """Return the partitions of a member: `clicks:0,1;views:3`."""
    by_topic: dict[str, list[str]] = {}
    for topic, number in places:
        by_topic.setdefault(topic, []).append(str(number))
    return ";".join(f"{topic}:{','.join(found)}" for topic, found in by_topic.items()) or _NONE


def state_table(group: ConsumerGroup, address: str, *, is_verbose: bool) -> str:
    """Return the state of a group, whose coordinator is at this address."""
    epochs = (None, None) if group.epochs is None else group.epochs
    heads = ("GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH") if is_verbose else ()
    more = dict(zip(heads, map(_text, epochs), strict=False))
    row = {
        "GROUP": group.name,
        "COORDINATOR (ID)": f"{address}  ({group.coordinator})",
        "ASSIGNMENT-STRATEGY": group.strategy or _NONE,
        "STATE": group.state,
        **more,
        "#MEMBERS": str(len(group.members)),
    }
    return _table(list(row), [list(row.values())], ends_open=True)


def deletion_table(rows: Iterable[tuple[str, str, str]]) -> str:
    """Return the results of deleted offsets: topic, partition, and a word or sentence."""
    filled = [(topic, number, status.ljust(_NARROW)) for topic, number, status in rows]
    return _table(("TOPIC", "PARTITION", "STATUS".ljust(_NARROW)), filled, ends_open=True)


def reset_table(group: str, rows: Iterable[Mapping[str, object]]) -> str:
    """Return the rows of a reset, by `topic`, `partition` and `new_offset`."""
    found = [
        [group, str(row["topic"]), str(row["partition"]), str(row["new_offset"])] for row in rows
    ]
    return _table(_RESET, found, ends_open=True)


def list_table(groups: Sequence[Sequence[str]], heads: Sequence[str]) -> str:
    """Return names of groups, each with other words, under these heads."""
    width = max((max(_LEAST, len(name)) for name, *_ in groups), default=_LEAST) + 10
    return "\n".join(
        " ".join([name.ljust(width), *(word.ljust(20) for word in words)])
        for name, *words in (("GROUP", *heads), *groups)
    )


def _who(member: GroupMember | None) -> list[str]:
    return [_NONE] * 3 if member is None else [member.member_id, member.host, member.client_id]


def _epoch(number: int | None) -> str:
    return _text(None if number is None or number < 0 else number)


def _text(number: int | None) -> str:
    return _NONE if number is None else str(number)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, ends_open: bool) -> str:
    """Lay out a table; without `ends_open` the last column is filled, and a space follows."""
    widths = [
        _WIDTHS.get(head, _NARROW)
        if head in _NUMBERS
        else max(_WIDTHS.get(head, _LEAST), *(len(row[at]) for row in rows))
        if rows
        else _WIDTHS.get(head, _LEAST)
        for at, head in enumerate(heads)
    ]
    if ends_open:
        widths[-1] = 0
    end = "" if ends_open else " "
    return "".join(
        "\n" + " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + end
        for row in (heads, *rows)
    )
