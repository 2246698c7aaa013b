"""What people do every day with topics, settings and groups, as the command line tells it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compat_tests.commands.command_line import FINE, ITEM_FAILED, USAGE, Done, Run, run
from compat_tests.wire.group_member import Member
from compat_tests.wire.record_bytes import batch
from compat_tests.wire.wire_client import WireClient

GROUP_OFFSETS = "__consumer_offsets"


@pytest.fixture
def on_kbroker(target: str) -> None:
    """Brokers of other kinds have other numbers and loggers."""
    if target != "kbroker":
        pytest.skip("for broker 0 of kbroker")


@pytest.fixture
def filled(wire: WireClient) -> str:
    """Two partitions, ten records in the first."""
    topic = wire.create_topic(partitions=2)
    wire.produce(topic, batch(10))
    return topic


def rows(done: Done) -> list[dict[str, object]]:
    assert done.code == FINE, done.err
    return [json.loads(line) for line in done.lines()]


def test_topics_are_listed_with_records_and_bytes(kbroker: Run, filled: str) -> None:
    (row,) = [
        row for row in rows(kbroker("topic", "list", "--output", "jsonl")) if row["topic"] == filled
    ]
    described = rows(kbroker("topic", "describe", filled, "--output", "jsonl"))

    assert (row["partitions"], row["replication_factor"], row["records"]) == (2, 1, 10)
    assert row["internal"] is False
    assert [each["records"] for each in described] == [10, 0]
    assert [each["size_bytes"] for each in described] == [row["size_bytes"], 0]
    assert isinstance(row["size_bytes"], int)
    assert row["size_bytes"] > 10


def test_a_topic_that_is_not_there_is_named_with_its_neighbour(kbroker: Run, filled: str) -> None:
    wrong = filled + "x"
    for command in (("describe",), ("delete",), ("alter", "--partitions", "3")):
        refused = kbroker("topic", *command, wrong).refused(ITEM_FAILED)
        assert refused.startswith(f"Error: no such topic: {wrong}, did you mean {filled}")


def test_one_missing_topic_does_not_hide_the_others(kbroker: Run, filled: str, topic: str) -> None:
    described = kbroker("topic", "describe", filled, topic, "--output", "jsonl")

    assert described.code == ITEM_FAILED
    assert len(described.lines()) == 2
    assert f"Error: no such topic: {topic}" in described.err


def test_kafkas_own_topics_are_not_trimmed_and_deleted_by_force_alone(
    kbroker: Run, filled: str, group: str
) -> None:
    kbroker("group", "reset", group, "--topic", filled, "--to", "1", "--yes")  # makes the topic

    deleted = kbroker("topic", "delete", GROUP_OFFSETS).refused(ITEM_FAILED)
    trimmed = kbroker("topic", "trim", GROUP_OFFSETS, "--before", "end").refused(ITEM_FAILED)

    assert deleted == (
        f"Error: {GROUP_OFFSETS} was not deleted: the committed offsets of all groups are in it "
        "(--force deletes it anyway)"
    )
    assert trimmed.startswith(f"Error: {GROUP_OFFSETS} was not trimmed")


def test_settings_are_altered_and_told_with_their_origin(kbroker: Run, filled: str) -> None:
    of = ("--topic", filled)
    altered = kbroker("config", "alter", *of, "--set", "retention.ms=5", "--append", "cleanup.policy=compact")  # fmt: skip
    told = rows(kbroker("config", "describe", *of, "retention.ms", "cleanup.policy", "segment.bytes", "--output", "jsonl"))  # fmt: skip
    kbroker("config", "alter", *of, "--delete", "retention.ms", "--subtract", "cleanup.policy=delete")  # fmt: skip
    after = kbroker("config", "describe", *of)

    assert altered == Done(FINE, "", f"{filled}: cleanup.policy, retention.ms altered\n")
    assert [tuple(row.values()) for row in told] == [
        (filled, "cleanup.policy", "delete,compact", "topic"),
        (filled, "retention.ms", "5", "topic"),
        (filled, "segment.bytes", "1073741824", "default"),
    ]
    assert [filled, "cleanup.policy", "compact", "topic"] in [
        line.split() for line in after.lines()
    ]
    assert "retention.ms" not in after.out
    everything = kbroker("config", "describe", *of, "--all").lines()
    assert len(everything) > len(after.lines()) + 20


def test_settings_of_brokers_and_loggers_are_changed_while_they_run(
    on_kbroker: None, kbroker: Run
) -> None:
    brokers, loggers = ("--all-brokers", "--broker", "0"), ("--loggers", "0")
    kbroker("config", "alter", *brokers, "--set", "log.retention.ms=8000000")
    kbroker("config", "alter", *loggers, "--set", "kbroker.network=ERROR")
    told = kbroker("config", "describe", *brokers, "log.retention.ms", "--output", "jsonl")
    levels = kbroker("config", "describe", *loggers, "kbroker.network", "--output", "jsonl")
    kbroker("config", "alter", *brokers, "--delete", "log.retention.ms")
    kbroker("config", "alter", *loggers, "--delete", "kbroker.network")

    assert {(row["of"], row["value"], row["origin"]) for row in rows(told)} == {
        ("all brokers", "8000000", "cluster (dynamic)"),
        ("broker 0", "8000000", "broker (dynamic)"),
    }
    assert [(row["value"], row["origin"]) for row in rows(levels)] == [("ERROR", "logger")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--topic", "{topic}", "--set", "retention.mss=1"), "did you mean retention.ms"),
        (("--topic", "{topic}", "--set", "retention.ms=x"), "retention.ms"),
        (
            ("--topic", "{topic}", "--delete", "retentoin.ms"),
            "unknown setting retentoin.ms, did you mean retention.ms",
        ),
        (("--broker", "77", "--set", "num.io.threads=4"), "no such broker: 77 (online: broker 0)"),
        (
            ("--broker", "0", "--set", "retention.ms=24"),
            "retention.ms is a setting of topics: of a broker it is log.retention.ms",
        ),
        (
            ("--broker", "0", "--set", "log.retention.hours=24"),
            "log.retention.hours needs a restart: put it in the broker's settings file, or change log.retention.ms now",
        ),
        (("--loggers", "0", "--set", "kbroker.netwrk=INFO"), "did you mean kbroker.network"),
    ],
)
def test_a_setting_that_cannot_be_altered_is_one_sentence(
    on_kbroker: None,
    kbroker: Run,
    filled: str,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    given = [argument.format(topic=filled) for argument in arguments]

    refused = kbroker("config", "alter", *given).refused(ITEM_FAILED)

    assert said.format(topic=filled) in refused
    assert "ConfigResource" not in refused


def test_a_change_can_be_tried_without_being_made(kbroker: Run, filled: str) -> None:
    tried = kbroker("config", "alter", "--topic", filled, "--set", "retention.ms=5", "--dry-run")

    assert (tried.code, tried.out) == (FINE, "")
    assert "nothing was changed" in tried.err
    assert "retention.ms" not in kbroker("config", "describe", "--topic", filled).out


def test_a_group_is_reset_and_put_back_from_what_describe_printed(
    kbroker: Run, filled: str, group: str, tmp_path: Path
) -> None:
    def reset(*options: str) -> list[tuple[object, object]]:
        done = kbroker("group", "reset", group, *options, "--yes", "--output", "jsonl")
        return [(row["committed_offset"], row["new_offset"]) for row in rows(done)]

    assert reset("--topic", filled, "--to", "4") == [(None, 4), (None, 0)]
    saved = tmp_path / "offsets.csv"
    saved.write_text(kbroker("group", "describe", group, "--output", "csv").out)
    assert reset("--topic", f"{filled}:0", "--to", "-1h") == [(4, 0)]
    assert reset("--to", f"file:{saved}") == [(0, 4), (0, 0)]


def test_nothing_is_reset_without_yes(kbroker: Run, filled: str, group: str) -> None:
    shown = kbroker("group", "reset", group, "--topic", filled, "--to", "4")

    assert shown.code == FINE
    assert "nothing was changed: add --yes to do it" in shown.err
    assert group in kbroker("group", "describe", group).refused(ITEM_FAILED)


def test_a_group_with_members_is_shown_and_neither_reset_nor_deleted(
    kbroker: Run, wire: WireClient, filled: str, group: str
) -> None:
    wire.wait_for_coordinator(group)
    member = Member(wire, group)
    member.join_and_sync()

    described = kbroker("group", "describe", group, "--members", "--output", "jsonl")
    reset = kbroker("group", "reset", group, "--topic", filled, "--to", "1", "--yes")
    deleted = kbroker("group", "delete", group)
    member.leave()

    (row,) = rows(described)
    assert (row["group"], row["member"], row["state"]) == (group, member.member_id, "Stable")
    assert f"group {group} is Stable: 1 member" in described.err
    assert reset.code == ITEM_FAILED
    assert f"Error: group {group} was not reset: it has 1 member" in reset.err
    assert "it has members, stop them first" in deleted.refused(ITEM_FAILED)
    assert kbroker("group", "delete", group) == Done(FINE, "", f"{group}: deleted\n")
    assert kbroker("group", "delete", group, "--if-exists").code == FINE


def test_an_unknown_group_is_named_with_its_neighbour(
    kbroker: Run, filled: str, group: str
) -> None:
    kbroker("group", "reset", group, "--topic", filled, "--to", "1", "--yes")
    for command in (("describe",), ("delete",), ("reset", "--to", "1")):
        refused = kbroker("group", *command, group + "x").refused(ITEM_FAILED)
        assert refused.startswith(f"Error: no such group: {group}x, did you mean {group}")


def test_a_file_of_settings_is_checked_without_a_start(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.properties", tmp_path / "bad.properties"
    good.write_text(f"broker.id=4\nlog.dirs={tmp_path}\n")
    bad.write_text("num.partitions=0\nlog.segment.bytes=abc\nlog.segment.byte=1\n")

    refused = run("config", "check", str(bad), "--output", "jsonl")

    assert run("config", "check", str(good)) == Done(
        FINE, "", f"{good}: 2 settings, 0 errors, 0 warnings\n"
    )
    assert refused.code == ITEM_FAILED
    assert [json.loads(line)["severity"] for line in refused.lines()] == ["error"] * 2 + ["warning"]
    assert "did you mean log.segment.bytes?" in refused.out
    assert f"{bad}: 3 settings, 2 errors, 1 warning" in refused.err
    assert "cannot read" in run("config", "check", str(tmp_path / "none")).refused(USAGE)


def test_the_settings_of_a_start_are_shown_with_their_origins(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=4\n")

    shown = run("config", "show", str(file), "--override", "num.partitions=5", "--output", "jsonl")

    found = {row["setting"]: (row["value"], row["origin"]) for row in rows(shown)}
    assert found["broker.id"] == ("4", "file")  # type: ignore[index]
    assert found["num.partitions"] == ("5", "option")  # type: ignore[index]
    assert found["min.insync.replicas"] == ("1", "profile")  # type: ignore[index]
    assert "log.segment.bytes" not in found


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("kbroker config describe --topic {prefix}", "{topic}"),
        ("kbroker topic descr", "describe"),
        ("kbroker config describe --topic t retention.m", "retention.ms"),
    ],
)
def test_a_shell_is_told_what_may_come_next(
    bootstrap: str, filled: str, words: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = words.format(prefix=filled[:-2])
    monkeypatch.setenv("_KBROKER_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))

    told = run(bootstrap=bootstrap)

    assert told.lines() == [f"plain,{expected.format(topic=filled)}"]


def test_a_shell_waits_for_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_KBROKER_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "kbroker topic describe o")
    monkeypatch.setenv("COMP_CWORD", "3")

    told = run(bootstrap="127.0.0.1:1")

    assert (told.out.strip(), told.err) == ("", "")
