"""kafka-consumer-groups: lists, describes, resets and deletes groups.

As in Kafka, what a group does not let happen is a line on standard output, and the exit code is 0.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

import click

from kbroker.cli.connection import cluster_links
from kbroker.cli.group_reset import planned_reset
from kbroker.cli.kafka_tools.group_tables import (
    list_table,
    members_table,
    offsets_table,
    reset_table,
)
from kbroker.cli.kafka_tools.tool_options import BOOTSTRAP, Given, Option, Tool, ToolError
from kbroker.cli.output import say
from kbroker.cli.reset_target import Target, parse_target, parse_topics
from kbroker.cli.time_argument import timestamp_ms
from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks
from kbroker.client.consumer_groups import (
    ConsumerGroup,
    commit_offsets,
    delete_group,
    listed_groups,
    read_group,
)
from kbroker.client.topic_figures import leaders_of, offsets_at
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition

_EXCEPTIONS = "org.apache.kafka.common.errors."
_REASONS = {
    ErrorCode.GROUP_ID_NOT_FOUND: (
        f"{_EXCEPTIONS}GroupIdNotFoundException: The group id does not exist."
    ),
    ErrorCode.NON_EMPTY_GROUP: f"{_EXCEPTIONS}GroupNotEmptyException: The group is not empty.",
}
_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1_000)
_DRY = (
    "WARN: No action will be performed as the --execute option is missing. Add --dry-run to say "
    "that this is what you want."
)


def _run(given: Given) -> int:
    action = given.action("list", "describe", "delete", "reset-offsets")
    with cluster_links(given.bootstrap()) as links:
        _ACTIONS[action](links, given)
    return 0


def _list(links: ClusterLinks, given: Given) -> None:
    groups = listed_groups(links)
    if given.has("state"):
        wanted = {text.strip().lower() for text in given.needed("state").split(",") if text}
        rows = [(str(each.group_id), str(each.group_state)) for each in groups]
        shown = [row for row in rows if not wanted or row[1].lower() in wanted]
        click.echo(list_table(shown, "STATE"))
        return
    for each in groups:
        click.echo(each.group_id)


def _describe(links: ClusterLinks, given: Given) -> None:
    if given.has("state"):
        raise ToolError("--state is not served here with --describe")
    for name in _names(links, given):
        group = read_group(links, name)
        if group.is_unknown:
            _tell_error(
                "Executing consumer group command failed due to "
                f"{_EXCEPTIONS}GroupIdNotFoundException: Group {name} not found."
            )
            continue
        _tell_state(group)
        table = members_table(group) if given.has("members") else _offsets(links, group)
        if table:
            click.echo(table)


def _offsets(links: ClusterLinks, group: ConsumerGroup) -> str:
    topics = sorted({place.topic for place in group.committed})
    leaders = leaders_of(links.describe(topics).topics) if topics else {}
    return offsets_table(group, offsets_at(links, leaders, LATEST))


def _tell_state(group: ConsumerGroup) -> None:
    if not group.members:
        say(f"\nConsumer group '{group.name}' has no active members.")
    elif group.state in _REBALANCING:
        say(f"\nWarning: Consumer group '{group.name}' is rebalancing.")


def _delete(links: ClusterLinks, given: Given) -> None:
    codes = {name: delete_group(links, name) for name in _names(links, given)}
    done = [name for name, code in codes.items() if code == ErrorCode.NONE]
    if len(done) == len(codes):
        names = ", ".join(done)
        click.echo(f"Deletion of requested consumer groups ('{names}') was successful.")
        return
    _tell_error("Deletion of some consumer groups failed:")
    for name, code in codes.items():
        if code != ErrorCode.NONE:
            reason = _REASONS.get(code, code.name)
            click.echo(f"* Group '{name}' could not be deleted due to: {reason}")
    if done:
        names = "', '".join(done)
        click.echo(f"\nThese consumer groups were deleted successfully: '{names}'")


def _reset(links: ClusterLinks, given: Given) -> None:
    target = target_of(given, int(time.time() * 1000))
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
        rows = [] if is_nothing else planned_reset(links, group, wanted, target).rows
        if group.members:
            _tell_error(
                f"Assignments can only be reset if the group '{name}' is inactive, but the current "
                f"state is {group.state}."
            )
            rows = []
        if given.has("execute"):
            _commit(links, name, rows)
        if given.has("export"):
            for row in rows:
                click.echo(f"{row['topic']},{row['partition']},{row['new_offset']}")
            click.echo()
        else:
            click.echo(reset_table(name, rows))


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
    """Return where a reset goes. ToolError where no option says it, or several do."""
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
    """Unix ms of so long ago, such as PT1H30M."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    return now_ms - round(
        sum(float(part or 0) * unit for part, unit in zip(found.groups(), _UNITS_MS, strict=True))
    )


def names_of(given: Given, all_names: Callable[[], list[str]]) -> list[str]:
    """Return the groups that are meant. ToolError where none is, or both some and all are."""
    found = given.all("group")
    if bool(found) == given.has("all-groups"):
        raise ToolError("Exactly one of --group and --all-groups must be given")
    return list(dict.fromkeys(found)) or all_names()


def _names(links: ClusterLinks, given: Given) -> list[str]:
    return names_of(given, lambda: [str(each.group_id) for each in listed_groups(links)])


def _tell_error(sentence: str) -> None:
    click.echo(f"\nError: {sentence}")


_ACTIONS = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
}
_RESET = ("reset-offsets",)
_OF_GROUPS = ("describe", "delete", *_RESET)
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
    summary="lists, describes, resets and deletes groups.",
    options={
        **BOOTSTRAP,
        "list": Option("Print the names of groups."),
        "describe": Option("Print offsets and lag of groups."),
        "delete": Option("Delete groups."),
        "reset-offsets": Option("Show, and with --execute change, where groups go on reading."),
        "group": Option("A group; may be repeated.", "NAME", of=_OF_GROUPS),
        "all-groups": Option("All groups.", of=_OF_GROUPS),
        "topic": Option(
            "A topic, or partitions of it, to reset; may be repeated.", "TOPIC[:0,1]", of=_RESET
        ),
        "all-topics": Option("All that the group has offsets of.", of=_RESET),
        "offsets": Option("Describe offsets, which is what happens without it.", of=("describe",)),
        "members": Option("Describe members.", of=("describe",)),
        "state": Option(
            "With --list: print states, or list groups of these alone.",
            "STATE,...",
            "",
            of=("list", "describe"),
        ),
        **_SCENARIOS,
        "execute": Option("Change offsets."),
        "dry-run": Option("Only show what would be changed.", of=_RESET),
        "export": Option("Print the offsets as lines of topic,partition,offset.", of=_RESET),
        "timeout": Option("Taken, without effect.", "MS"),
    },
    run=_run,
)
