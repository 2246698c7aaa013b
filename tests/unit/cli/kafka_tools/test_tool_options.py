"""Command lines of Kafka's tools, read by the tables of what is served."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kbroker.cli.command_line import cli
from kbroker.cli.kafka_tools.command import INSTEAD, TOOLS, tool_of
from kbroker.cli.kafka_tools.tool_options import (
    Given,
    Option,
    Tool,
    ToolError,
    help_text,
    pairs,
    read,
)

TOOL = Tool(
    summary="does it.",
    options={
        "topic": Option("A topic.", "TOPIC"),
        "list": Option("List."),
        "describe": Option("Describe."),
        "codec": Option("A codec.", "CODEC", "gzip"),
        "count": Option("How many.", "NUMBER"),
    },
    run=lambda _: 0,
)
WORDS = Tool(
    summary="takes words.", options=TOOL.options, run=TOOL.run, takes="FILE", short={"-c": "count"}
)


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("", {}),
        ("--list", {"list": []}),
        ("--topic a --topic=b", {"topic": ["a", "b"]}),
        ("--topic --list", {"topic": ["--list"]}),
        ("--count -1", {"count": ["-1"]}),
        ("--codec --list", {"codec": ["gzip"], "list": []}),
        ("--codec", {"codec": ["gzip"]}),
        ("--codec lz4", {"codec": ["lz4"]}),
        ("--codec=lz4", {"codec": ["lz4"]}),
        ("--topic=", {"topic": [""]}),
        ("--topic=a=b", {"topic": ["a=b"]}),
    ],
)
def test_options_have_their_values(line: str, values: dict[str, list[str]]) -> None:
    assert read(TOOL, line.split()) == Given(values)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--bogus", "--bogus is not served here"),
        ("--lis", "--lis is not served here, did you mean --list?"),
        ("-l", "-l is not served here"),
        ("--", " is not served here"),
        ("--topic", "Option topic requires an argument"),
        ("--list=yes", "--list takes no value"),
        ("words", "'words' is not an option, and nothing else is taken here"),
    ],
)
def test_what_is_not_in_the_table_is_named(line: str, sentence: str) -> None:
    with pytest.raises(ToolError) as caught:
        read(TOOL, line.split())

    assert sentence in str(caught.value)


def test_a_tool_may_take_words_and_letters() -> None:
    assert read(WORDS, ["a", "-c", "3", "b"]) == Given({"count": ["3"]}, ("a", "b"))


def test_an_option_is_asked_for_as_it_must_be_there() -> None:
    given = read(TOOL, ["--topic", "a", "--topic", "b", "--count", "x", "--list"])

    with pytest.raises(ToolError, match="Found multiple arguments for option topic"):
        given.one("topic")
    with pytest.raises(ToolError, match="Cannot parse argument 'x' of option count"):
        given.number("count")
    with pytest.raises(ToolError, match=r'Missing required argument "\[codec\]"'):
        given.needed("codec")
    with pytest.raises(ToolError, match="--bootstrap-server must be specified"):
        given.address()
    assert given.action("list", "describe") == "list"
    with pytest.raises(ToolError, match=r"exactly one action: --topic or --list$"):
        given.action("topic", "list")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("consumer-groups", "--delete --group g --topic t"),
        ("consumer-groups", "--delete --group g --dry-run"),
        ("consumer-groups", "--delete --group g --all-topics"),
        ("consumer-groups", "--delete --group g --to-offset 3"),
        ("consumer-groups", "--list --group g"),
        ("consumer-groups", "--describe --group g --topic t"),
        ("topics", "--delete --topic t --partitions 1"),
        ("topics", "--delete --topic t --exclude-internal"),
        ("topics", "--delete --topic t.* --topics-with-overrides"),
        ("topics", "--alter --topic t --partitions 3 --config a=b"),
        ("topics", "--create --topic t --if-exists"),
        ("topics", "--list --if-not-exists"),
    ],
)
def test_what_does_not_belong_to_an_action_is_refused_and_not_ignored(name: str, line: str) -> None:
    with pytest.raises(ToolError, match=r"--[a-z-]+ is for --[a-z -]+ only"):
        read(tool_of(name), line.split())


def test_help_is_told_beside_anything() -> None:
    assert read(tool_of("topics"), ["--list", "--if-exists", "--help"]).has("help")


def test_pairs_have_names() -> None:
    assert pairs("config", ["a=1", "b=", "c"]) == {"a": "1", "b": "", "c": ""}
    with pytest.raises(ToolError, match="--config '=1' is not KEY=VALUE"):
        pairs("config", ["=1"])


@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_tells_its_options(name: str) -> None:
    tool = tool_of(name)

    told = help_text(name, tool)

    assert told.startswith(f"kafka-{name} ")
    assert all(f"  --{option}" in told for option in tool.options)
    assert max(map(len, told.splitlines())) <= 100


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_of_a_tool_that_is_not_there_the_command_that_does_the_same_is_named(name: str) -> None:
    done = CliRunner().invoke(cli, ["kafka-tool", f"kafka-{name}.sh", "--help"])
    named = INSTEAD[name].removeprefix("kbroker ").split()
    there = CliRunner().invoke(cli, [*named, "--help"])

    assert done.exit_code == 2
    assert f"kafka-{name} is not served: `{INSTEAD[name]}` does" in done.output
    assert there.exit_code == 0
