"""What options of Kafka's tools become here."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kbroker.cli.kafka_tools import (
    configs,
    configs_of_clients,
    console_consumer,
    console_producer,
    consumer_groups,
)
from kbroker.cli.kafka_tools.get_offsets import TOOL as GET_OFFSETS
from kbroker.cli.kafka_tools.get_offsets import choice_of
from kbroker.cli.kafka_tools.tool_options import ToolError, read
from kbroker.client.cluster_links import EARLIEST, LATEST
from kbroker.client.record_places import END, START, Kind, Place
from kbroker.client.reset_targets import Target
from kbroker.model import TopicPartition

NOW_MS = 1_000_000_000


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        ("--property parse.key=true", ["--key-separator", "\t"]),
        ("--property key.separator=:", []),
        (
            r"--reader-property parse.key=true --property key.separator=\t",
            ["--key-separator", r"\\t"],
        ),
        (
            "--request-required-acks -1 --compression-codec",
            ["--acks", "all", "--compression", "gzip"],
        ),
        (
            "--producer-property acks=0 --producer-property compression.type=lz4",
            ["--acks", "0", "--compression", "lz4"],
        ),
        ("--producer-property linger.ms=5", ["-X", "linger.ms=5"]),
        ("--producer.config f --sync --timeout 5", ["--command-config", "f"]),
    ],
)
def test_a_console_producer_is_a_produce(line: str, words: Sequence[str]) -> None:
    given = read(console_producer.TOOL, f"--bootstrap-server b:1 --topic t {line}".split())

    assert console_producer.words_of(given) == [
        "--bootstrap", "b:1", *words, "--as-kafka", "--", "t",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["parse.headers", "null.marker", "ignore.error"])
def test_properties_of_lines_that_are_not_served_are_named(name: str) -> None:
    given = read(
        console_producer.TOOL, f"--bootstrap-server b:1 --topic t --property {name}=true".split()
    )
    with pytest.raises(ToolError, match=f"--property {name} is not served here"):
        console_producer.words_of(given)


@pytest.mark.parametrize(
    ("line", "start", "group"),
    [
        ("--topic t", END, None),
        ("--topic t --from-beginning --group g", START, "g"),
        ("--topic t --partition 0 --offset 7", Place(Kind.OFFSET, 7), None),
        ("--topic t --partition 0 --offset earliest", START, None),
    ],
)
def test_a_console_consumer_reads_on_from_its_place(
    line: str, start: Place, group: str | None
) -> None:
    choice = console_consumer.choice_of(read(console_consumer.TOOL, line.split()), {})

    assert (choice.start, choice.group, choice.follow) == (start, group, True)
    assert not choice.only_committed


def test_properties_of_a_consumer_say_where_it_begins_too() -> None:
    own = {"group.id": "g", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}

    choice = console_consumer.choice_of(read(console_consumer.TOOL, ["--include", "a,b.*"]), own)

    assert (choice.start, choice.group, choice.only_committed) == (START, "g", True)
    assert choice.pattern is not None
    assert choice.pattern.fullmatch("b1")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--topic t --include t",
        "--topic t --group g --partition 0",
        "--topic t --offset 3",
        "--topic t --partition 0 --offset -3",
        "--topic t --isolation-level none",
        "--include (",
    ],
)
def test_a_consumer_that_makes_no_sense_is_refused(line: str) -> None:
    with pytest.raises(ToolError):
        console_consumer.choice_of(read(console_consumer.TOOL, line.split()), {})


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("--to-earliest", Target(moment=EARLIEST)),
        ("--to-latest", Target(moment=LATEST)),
        ("--to-current", Target(shift=0)),
        ("--to-offset 5", Target(offset=5)),
        ("--shift-by -2", Target(shift=-2)),
        ("--to-datetime 1970-01-02T00:00:00.500", Target(moment=86_400_500)),
        ("--to-datetime 1970-01-02T01:00:00.000+01:00", Target(moment=86_400_000)),
        ("--by-duration PT1H30M", Target(moment=NOW_MS - 5_400_000)),
        ("--by-duration P1DT0.5S", Target(moment=NOW_MS - 86_400_500)),
        ("--by-duration P1000D", Target(moment=0)),
    ],
)
def test_a_reset_goes_where_its_option_says(line: str, target: Target) -> None:
    given = read(consumer_groups.TOOL, ["--reset-offsets", *line.split()])

    assert consumer_groups.target_of(given, NOW_MS) == target


@pytest.mark.parametrize(
    "line", ["", "--to-latest --to-earliest", "--by-duration 1h", "--by-duration P"]
)
def test_a_reset_without_one_place_is_refused(line: str) -> None:
    with pytest.raises(ToolError):
        consumer_groups.target_of(read(consumer_groups.TOOL, line.split()), NOW_MS)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("", "a0 a1 a2 b0 b1 b2"),
        ("--topic a", "a0 a1 a2"),
        ("--topic a|b --partitions 0,2", "a0 a2 b0 b2"),
        ("--partitions 1-", "a1 a2 b1 b2"),
        ("--partitions -1", "a0 b0"),
        ("--topic-partitions a:0-2,b:2", "a0 a1 b2"),
        ("--topic-partitions :1", "a1 b1"),
        ("--topic-partitions a", "a0 a1 a2"),
    ],
)
def test_partitions_are_chosen_by_topic_and_number(line: str, found: str) -> None:
    is_wanted = choice_of(read(GET_OFFSETS, line.split()))

    there = [TopicPartition(topic, number) for topic in "ab" for number in range(3)]
    assert [f"{topic}{number}" for topic, number in filter(is_wanted, there)] == found.split()


def test_a_list_in_brackets_is_one_setting() -> None:
    line = "--add-config a=1,b=[x,y] --add-config c= --delete-config d,e"

    changes = configs.changes_of(read(configs.TOOL, line.split()))

    assert [(each.name, each.value) for each in changes] == [
        ("a", "1"), ("b", "x,y"), ("c", ""), ("d", None), ("e", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "--topic t --broker 1",
        "--topic t --entity-type brokers",
        "--broker 1 --broker-defaults",
        "--entity-type brokers --entity-name 1 --entity-default",
        "--broker 1 --entity-default",
    ],
)
def test_settings_are_those_of_one_entity(line: str) -> None:
    with pytest.raises(ToolError, match=r"Only one of --[a-z-]+, --[a-z-]+ can be given"):
        configs.entity_of(read(configs.TOOL, line.split()))


def test_groups_are_named_or_are_all() -> None:
    for line in ("--delete", "--delete --group g --all-groups"):
        given = read(consumer_groups.TOOL, line.split())
        with pytest.raises(
            ToolError, match="Exactly one of --group and --all-groups must be given"
        ):
            consumer_groups.names_of(given, list)


@pytest.mark.parametrize(("line", "kinds", "names"), [
    ("--user ann", ("users",), ("ann",)),
    ("--user-defaults", ("users",), ("",)),
    ("--client app --user ann", ("clients", "users"), ("app", "ann")),
    ("--user-defaults --client app", ("clients", "users"), ("app", "")),
    ("--user ann --client app", ("clients", "users"), ("app", "ann")),
    ("--entity-type ips", ("ips",), ()),
    ("--entity-type users --entity-name ann --entity-type clients", ("users", "clients"), ("ann",)),
    ("--entity-type users --entity-default --entity-type clients --entity-name app",
     ("users", "clients"), ("", "app")),
    ("--entity-type users --entity-name ann --entity-type clients --entity-default",
     ("users", "clients"), ("ann", "")),
    ("--entity-type users --entity-default --entity-type clients --entity-default",
     ("users", "clients"), ("", "")),
])  # fmt: skip
def test_clients_are_named_as_in_kafka_configs(
    line: str, kinds: tuple[str, ...], names: tuple[str, ...]
) -> None:
    given = read(configs.TOOL, line.split())
    assert configs_of_clients.are_meant(given)
    assert configs_of_clients.whose(given) == (kinds, names)


@pytest.mark.parametrize("line", [
    "--user ann --entity-type clients",
    "--entity-type users --entity-type users",
    "--entity-type users --entity-type ips",
    "--entity-type users --entity-name ann --entity-name bo",
])  # fmt: skip
def test_clients_that_do_not_go_together_are_refused(line: str) -> None:
    with pytest.raises(ToolError):
        configs_of_clients.whose(read(configs.TOOL, line.split()))
