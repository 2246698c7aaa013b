"""Errors of the command line itself, in the voice of all others."""

from __future__ import annotations

import click
import pytest

from kbroker.cli.command_line import cli
from kbroker.cli.usage_errors import sentence_of_usage


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("topic list --internl", "no such option: --internl, did you mean --internal?"),
        (
            "--bootstrap h:1 topic list",
            "no such option: --bootstrap: options follow the whole command, as in "
            "`kbroker topic list --bootstrap HOST:PORT`",
        ),
        ("--versoin", "no such option: --versoin, did you mean --version?"),
        ("start --port 9092", "no such option: --port, did you mean --listen?"),
        ("start --host 0.0.0.0", "no such option: --host, did you mean --listen?"),
        ("start --set a=b", "no such option: --set, did you mean --override?"),
        (
            "start --config server.properties",
            "no such option: --config, as it is an argument "
            "(usage: kbroker start [OPTIONS] [server.properties])",
        ),
        ("start --log-dirs d", "no such option: --log-dirs, did you mean --data?"),
        ("consume t --max-messages 1", "no such option: --max-messages, did you mean --count?"),
        ("consume t --from-beginning", "no such option: --from-beginning, did you mean --from?"),
        ("consume t --offset 1", "no such option: --offset, did you mean --from?"),
        (
            "consume --topic orders",
            "no such option: --topic, as it is an argument "
            "(usage: kbroker consume [OPTIONS] [TOPIC]...)",
        ),
        (
            "group describe --group billing",
            "no such option: --group, as it is an argument "
            "(usage: kbroker group describe [OPTIONS] GROUP...)",
        ),
        ("topic rm orders", "no such command: rm, did you mean delete?"),
        ("group ls", "no such command: ls, did you mean list?"),
        ("cluster rm", "no such command: rm"),
        ("topic list orders", "unexpected argument: orders"),
        ("topic list --output", "--output needs a value"),
        ("topic list --internal=3", "--internal takes no value"),
        (
            "topic list --output jsn",
            "--output 'jsn' is none of table, json, jsonl, csv, did you mean json or jsonl?",
        ),
        ("topic trim orders", "missing option: --before OFFSET|-1h|DATE|end"),
        (
            "topic delete",
            "missing argument: TOPIC... (usage: kbroker topic delete [OPTIONS] TOPIC...)",
        ),
        ("topic alter orders --partitions many", "--partitions 'many' is not a whole number"),
        ("consume orders --count 0", "--count 0 is less than 1"),
        ("wait --timeout soon", "--timeout 'soon' is not a number"),
        ("completion tcsh", "SHELL 'tcsh' is none of bash, zsh, fish"),
        ("health --command-config /no/file", "--command-config '/no/file' does not exist"),
        (
            "health -X security.protocol",
            "--command-property 'security.protocol' has no value: give NAME=VALUE",
        ),
    ],
)
def test_a_wrong_command_line_is_one_sentence(words: str, said: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        cli.main(words.split(), prog_name="kbroker", standalone_mode=False)

    assert sentence_of_usage(refused.value) == said
