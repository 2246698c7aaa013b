"""kafka-consumer-groups: lists, describes, resets and deletes groups, and deletes their offsets.

As in Kafka, what a group does not let happen is a line on standard output, and the exit code is 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kbroker.cli.arguments.connection import cluster_links
from kbroker.cli.group.reset import plan_rows, planned_or_refused
from kbroker.cli.group.reset_target import parse_target, parse_topics
from kbroker.cli.kafka_tools.group_tables import (
    deletion_table,
    list_table,
    members_table,
    offsets_table,
    reset_table,
    state_table,
    verbose_members_table,
)
from kbroker.cli.kafka_tools.tool_options import BOOTSTRAP, Given, Option, Tool, ToolError
from kbroker.cli.shown.output import print_text, say
from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks
from kbroker.client.consumer_groups import (
    MEMBERS_NOT_SAID,
    ConsumerGroup,
    commit_offsets,
    committed_entries,
    delete_group,
    delete_offsets,
    listed_groups,
    read_group,
)
from kbroker.client.moments import timestamp_ms
from kbroker.client.reset_targets import Target
from kbroker.client.topic_figures import leaders_of, offsets_at
from kbroker.client.wall_clock import unix_now_ms
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition

_EXCEPTIONS = "org.apache.kafka.common.errors."
_REASONS = {
    ErrorCode.GROUP_ID_NOT_FOUND: (
        f"{_EXCEPTIONS}GroupIdNotFoundException: The group id does not exist."
    ),
    ErrorCode.NON_EMPTY_GROUP: f"{_EXCEPTIONS}GroupNotEmptyException: The group is not empty.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        f"{_EXCEPTIONS}GroupSubscribedToTopicException: Deleting offsets of a topic is forbidden "
        "while the consumer group is actively subscribed to it."
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        f"{_EXCEPTIONS}UnknownTopicOrPartitionException: This server does not host this "
        "topic-partition."
    ),
}
_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1_000)
_DRY = (
    "WARN: No action will be performed as the --execute option is missing. Add --dry-run to say "
    "that this is what you want."
)


def _run(given: Given) -> int:
    action = given.action(*_ACTIONS)
    with cluster_links(given.bootstrap()) as links:
        _ACTIONS[action](links, given)
    return 0


def _list(links: ClusterLinks, given: Given) -> None:
    groups = listed_groups(links)
    heads = [head for head in _LISTED if given.has(head)]
    for head in heads:
        wanted = {text.strip().lower() for text in given.needed(head).split(",") if text}
        known = [word.lower() for word in _WORDS[head]]
        if not wanted.issubset(known):
            raise ToolError(f"--{head} takes {', '.join(_WORDS[head])}")
        groups = [each for each in groups if not wanted or _LISTED[head](each).lower() in wanted]
    if heads:
        rows = [[str(each.group_id), *(_LISTED[head](each) for head in heads)] for each in groups]
        print_text(list_table(rows, [head.upper() for head in heads]))
        return
    for each in groups:
        print_text(str(each.group_id))


def _describe(links: ClusterLinks, given: Given) -> None:
    table = _table_of(given)
    for name in _names(links, given):
        group = read_group(links, name)
        if group.is_unknown:
            _print_error(
                "Executing consumer group command failed due to "
                f"{_EXCEPTIONS}GroupIdNotFoundException: Group {name} not found."
            )
            continue
        _say_state(group)
        text = table(links, group)
        if text:
            print_text(text)


def _table_of(given: Given) -> Callable[[ClusterLinks, ConsumerGroup], str]:
    """Return what prints a group. ToolError if several are asked for."""
    kind = given.at_most_one("offsets", "members", "state")
    is_verbose = given.has("verbose")
    if kind == "members":
        made = verbose_members_table if is_verbose else members_table
        return lambda _, group: made(group)
    if kind == "state":
        return lambda links, group: state_table(
            group, _address(links, group.coordinator), is_verbose=is_verbose
        )
    return _offsets_and_epochs if is_verbose else _offsets


def _address(links: ClusterLinks, node_id: int) -> str:
    brokers = links.describe([]).brokers
    found = (f"{each.host}:{each.port}" for each in brokers if each.node_id == node_id)
    return next(found, "-")


def _offsets(
    links: ClusterLinks, group: ConsumerGroup, epochs: Mapping[TopicPartition, int] | None = None
) -> str:
    topics = sorted({place.topic for place in group.committed})
    leaders = leaders_of(links.describe(topics).topics) if topics else {}
    return offsets_table(group, offsets_at(links, leaders, LATEST), epochs)


def _offsets_and_epochs(links: ClusterLinks, group: ConsumerGroup) -> str:
    entries = committed_entries(links, group.name)
    epochs = {place: entry.committed_leader_epoch for place, entry in entries.items()}
    return _offsets(links, group, epochs)


def _say_state(group: ConsumerGroup) -> None:
    if group.is_not_served:
        say(f"\nConsumer group '{group.name}' is {group.state}: {MEMBERS_NOT_SAID}.")
    elif not group.members:
        say(f"\nConsumer group '{group.name}' has no active members.")
    elif group.state in _REBALANCING:
        say(f"\nWarning: Consumer group '{group.name}' is rebalancing.")


def _delete(links: ClusterLinks, given: Given) -> None:
    codes = {name: delete_group(links, name) for name in _names(links, given)}
    done = [name for name, code in codes.items() if code == ErrorCode.NONE]
    if len(done) == len(codes):
        names = ", ".join(done)
        print_text(f"Deletion of requested consumer groups ('{names}') was successful.")
        return
    _print_error("Deletion of some consumer groups failed:")
    for name, code in codes.items():
        if code != ErrorCode.NONE:
            print_text(f"* Group '{name}' could not be deleted due to: {_reason(code)}")
    if done:
        names = "', '".join(done)
        print_text(f"\nThese consumer groups were deleted successfully: '{names}'")


def _delete_offsets(links: ClusterLinks, given: Given) -> None:
    if given.has("all-groups"):
        raise ToolError("--all-groups is not for --delete-offsets")
    given.needed("topic")
    (name,) = _names(links, given)
    places, missing = _places(links, parse_topics(given.all("topic")))
    code, codes = delete_offsets(links, name, places)
    if code != ErrorCode.NONE:
        codes = dict.fromkeys(places, code)
        _print_error(_reason(code).partition(": ")[2] or code.name)
    elif any(codes.values()):
        _print_error("Encountered some partition-level error, see the follow-up details.")
    else:
        print_text(f"Request succeeded for deleting offsets from group {name}.")
    rows = [
        (place.topic, str(place.partition), f"Error: {_reason(each)}" if each else "Successful")
        for place, each in sorted(codes.items())
    ]
    unknown = f"Error: {_reason(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}"
    print_text(deletion_table([*rows, *((topic, "-", unknown) for topic in missing)]))


def _places(
    links: ClusterLinks, wanted: Mapping[str, Collection[int]]
) -> tuple[list[TopicPartition], list[str]]:
    """Return the partitions that are meant, all of a topic if none is named, and unknown topics."""
    there = {str(topic.name): topic for topic in links.describe(sorted(wanted)).topics}
    places: list[TopicPartition] = []
    for name, numbers in wanted.items():
        known = [each.partition_index for each in there[name].partitions] if name in there else []
        places += [TopicPartition(name, number) for number in sorted(numbers or known)]
    return places, [name for name in wanted if name not in {place.topic for place in places}]


def _reason(code: ErrorCode) -> str:
    return _REASONS.get(code, code.name)


def _reset(links: ClusterLinks, given: Given) -> None:
    target = target_of(given, unix_now_ms())
    if given.has("execute") and given.has("dry-run"):
        raise ToolError("Only one of --execute and --dry-run can be given")
    if not (given.has("topic") or given.has("all-topics") or given.has("from-file")):
        raise ToolError("One of --topic, --all-topics or --from-file must be given")
    if not (given.has("execute") or given.has("dry-run") or given.has("export")):
        say(_DRY)
    wanted = parse_topics(given.all("topic"))
    for name in _names(links, given):
        group = read_group(links, name)
        is_nothing = group.is_unknown and not wanted and target.of_file is None
        planned = [] if is_nothing else planned_or_refused(links, group, wanted, target).offsets
        rows = plan_rows(name, planned)
        if group.members:
            _print_error(
                f"Assignments can only be reset if the group '{name}' is inactive, but the current "
                f"state is {group.state}."
            )
            rows = []
        if given.has("execute"):
            _commit(links, name, rows)
        if given.has("export"):
            for row in rows:
                print_text(f"{row['topic']},{row['partition']},{row['new_offset']}")
            print_text("")
        else:
            print_text(reset_table(name, rows))


def _commit(links: ClusterLinks, name: str, rows: Sequence[dict[str, object]]) -> None:
    offsets = {
        TopicPartition(str(row["topic"]), int(str(row["partition"]))): int(str(row["new_offset"]))
        for row in rows
    }
    if not offsets:
        return
    refused = {code for code in commit_offsets(links, name, offsets).values() if code}
    if refused:
        names = ", ".join(sorted(code.name for code in refused))
        raise ToolError(f"The offsets of group {name} were not committed: {names}")


def target_of(given: Given, now_ms: int) -> Target:
    """Return the target of a reset. ToolError if no option names it, or several do."""
    scenario = given.action(*_SCENARIOS)
    if scenario == "to-earliest":
        return Target(moment=EARLIEST)
    if scenario == "to-latest":
        return Target(moment=LATEST)
    if scenario == "to-current":
        return Target(shift=0)
    text = given.needed(scenario)
    if scenario == "from-file":
        return parse_target(f"file:{text}", now_ms)
    if scenario in ("to-offset", "shift-by"):
        number = given.number(scenario)
        return Target(offset=number) if scenario == "to-offset" else Target(shift=number)
    moment = timestamp_ms(text, now_ms) if scenario == "to-datetime" else _before(text, now_ms)
    if moment is None:
        raise ToolError(f"--{scenario} '{text}' is not in the form of ISO 8601")
    return Target(moment=max(moment, 0))


def _before(text: str, now_ms: int) -> int | None:
    """Return the Unix ms of a duration ago, such as PT1H30M; None for any other text."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    return now_ms - round(
        sum(float(part or 0) * unit for part, unit in zip(found.groups(), _UNITS_MS, strict=True))
    )


def names_of(given: Given, all_names: Callable[[], list[str]]) -> list[str]:
    """Return the groups that are meant. ToolError if none is, or both some and all are."""
    found = given.all("group")
    if bool(found) == given.has("all-groups"):
        raise ToolError("Exactly one of --group and --all-groups must be given")
    return list(dict.fromkeys(found)) or all_names()


def _names(links: ClusterLinks, given: Given) -> list[str]:
    return names_of(given, lambda: [str(each.group_id) for each in listed_groups(links)])


def _print_error(sentence: str) -> None:
    print_text(f"\nError: {sentence}")


_ACTIONS = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}
_LISTED: Mapping[str, Callable[[Any], str]] = {
    "type": lambda group: str(group.group_type).capitalize(),
    "state": lambda group: str(group.group_state),
}
_WORDS = {
    "type": ("Classic", "Consumer"),
    "state": ("Dead", "Empty", "Stable", *_REBALANCING),
}
_RESET = ("reset-offsets",)
_DELETE_OFFSETS = ("delete-offsets",)
_OF_GROUPS = ("describe", "delete", *_RESET, *_DELETE_OFFSETS)
_SCENARIOS = {
    "to-earliest": Option("Reset to the first record.", of=_RESET),
    "to-latest": Option("Reset to the end.", of=_RESET),
    "to-current": Option("Reset to where the group is.", of=_RESET),
    "to-offset": Option("Reset to this offset.", "OFFSET", of=_RESET),
    "shift-by": Option("Reset by so many records, on or (negative) back.", "NUMBER", of=_RESET),
    "to-datetime": Option("Reset to a time, in UTC: 2026-11-29T10:00:00.000", "TIME", of=_RESET),
    "by-duration": Option("Reset to so long ago: PT1H30M", "DURATION", of=_RESET),
    "from-file": Option("Reset to what lines of topic,partition,offset say.", "FILE", of=_RESET),
}
TOOL = Tool(
    summary="lists, describes, resets and deletes groups, and deletes their offsets.",
    options={
        **BOOTSTRAP,
        "list": Option("Print the names of groups."),
        "describe": Option("Print offsets and lag of groups."),
        "delete": Option("Delete groups."),
        "reset-offsets": Option("Show, and with --execute change, where groups go on reading."),
        "delete-offsets": Option("Delete the offsets of a group in topics."),
        "group": Option("A group; may be repeated.", "NAME", of=_OF_GROUPS),
        "all-groups": Option("All groups.", of=_OF_GROUPS),
        "topic": Option(
            "A topic, or partitions of it; may be repeated.",
            "TOPIC[:0,1]",
            of=(*_RESET, *_DELETE_OFFSETS),
        ),
        "all-topics": Option("All that the group has offsets of.", of=_RESET),
        "offsets": Option("Describe offsets, which is what happens without it.", of=("describe",)),
        "members": Option("Describe members.", of=("describe",)),
        "state": Option(
            "With --list: print states, or list groups of these alone. With --describe: print the "
            "state, strategy and coordinator of groups.",
            "STATE,...",
            "",
            of=("list", "describe"),
        ),
        "type": Option(
            "Print types (classic, consumer), or list groups of these.",
            "TYPE,...",
            "",
            of=("list",),
        ),
        "verbose": Option(
            "Print epochs, too, and with --members what each of them reads.",
            of=("describe",),
        ),
        **_SCENARIOS,
        "execute": Option("Change offsets."),
        "dry-run": Option("Only show what would be changed.", of=_RESET),
        "export": Option("Print the offsets as lines of topic,partition,offset.", of=_RESET),
        "timeout": Option("Taken, without effect.", "MS"),
    },
    run=_run,
)
