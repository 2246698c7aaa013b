"""`kbroker produce` and `kbroker consume` with many records, and where something goes wrong."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from compat_tests.commands.command_line import (
    FINE,
    ITEM_FAILED,
    PROGRAM,
    USAGE,
    Done,
    Run,
    interrupted,
    run,
    started,
)
from compat_tests.conftest import BrokerProcess
from compat_tests.running.waiting import until

KEPT = ("--config", "retention.ms=-1")  # also records from 1970
INTERRUPTED = 130


def values(done: Done) -> list[str]:
    assert done.code == FINE, done.err
    return [json.loads(line)["value"] for line in done.lines()]


def numbers(count: int) -> list[str]:
    return [f"line {number}" for number in range(count)]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_many_lines_come_back_in_their_order(
    kbroker: Run, topic: str, acks: str, codec: str
) -> None:
    kbroker("topic", "create", topic)
    lines = "".join(f"{line}\n" for line in numbers(150_000))

    written = kbroker("produce", topic, "--acks", acks, "--compression", codec, stdin=lines)

    assert (written.code, written.out) == (FINE, ""), written.err
    assert f"150,000 records {'sent' if acks == '0' else 'written'} to" in written.err
    until(lambda: kbroker("consume", topic).out == lines)


def test_lines_with_one_key_stay_together_in_their_order(kbroker: Run, topic: str) -> None:
    kbroker("topic", "create", topic, "--partitions", "3")
    lines = "".join(f"k{number % 10}:{number}\n" for number in range(30_000))

    written = kbroker("produce", topic, "--key-separator", ":", stdin=lines)
    read = kbroker("consume", topic, "--output", "jsonl")

    assert written.code == FINE, written.err
    rows = [json.loads(line) for line in read.lines()]
    by_key: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        by_key.setdefault(row["key"], []).append((row["partition"], int(row["value"])))
    assert len(rows) == 30_000
    assert len({partition for places in by_key.values() for partition, _ in places}) > 1
    for places in by_key.values():
        assert len({partition for partition, _ in places}) == 1
        assert places == sorted(places)


def test_what_is_typed_is_not_changed(kbroker: Run, topic: str) -> None:
    kbroker("topic", "create", topic)

    kbroker("produce", topic, stdin=b"dos\r\n\n \t\r\r\nno end\r")

    read = kbroker("consume", topic, "--output", "jsonl")
    assert values(read) == ["dos\r", "", " \t\r\r", "no end\r"]


def test_batches_fit_into_what_the_topic_takes(kbroker: Run, topic: str) -> None:
    kbroker("topic", "create", topic, "--config", "max.message.bytes=3000")
    lines = "".join(f"{line}\n" for line in numbers(5_000))

    written = kbroker("produce", topic, stdin=lines)

    assert written.code == FINE, written.err
    assert kbroker("consume", topic).out == lines


def test_a_line_that_is_too_large_is_told_and_the_others_are_written(
    kbroker: Run, topic: str
) -> None:
    kbroker("topic", "create", topic, "--config", "max.message.bytes=3000")
    lines = [*numbers(200), "x" * 4_000, *numbers(300)]

    written = kbroker("produce", topic, stdin="".join(f"{line}\n" for line in lines))

    sentence = written.refused(ITEM_FAILED)
    assert "1 of 501 records was not written: a record is larger than max.message.bytes" in sentence
    assert "(MESSAGE_TOO_LARGE)" in sentence
    assert kbroker("consume", topic).lines() == [*numbers(200), *numbers(300)]


def test_consuming_makes_no_topic(kbroker: Run, topic: str) -> None:
    kbroker("consume", topic).refused(ITEM_FAILED)
    kbroker("consume", topic, "--group", topic).refused(ITEM_FAILED)

    assert topic not in kbroker("topic", "list").out


def test_producing_makes_a_topic_where_the_broker_does_and_says_so(
    kbroker: Run, topic: str
) -> None:
    first = kbroker("produce", topic, stdin="v\n")
    second = kbroker("produce", topic, stdin="w\n")

    assert first.code == second.code == FINE
    assert f"{topic}: created by the broker, with 1 partition" in first.err
    assert "created" not in second.err
    assert kbroker("consume", topic).out == "v\nw\n"


def test_a_topic_whose_name_is_near_is_named(kbroker: Run, topic: str) -> None:
    kbroker("topic", "create", topic)

    refused = kbroker("consume", f"{topic}x").refused(ITEM_FAILED)

    _, _, near = refused.partition(f"no such topic: {topic}x, did you mean ")
    assert topic in re.split(", | or ", near.rstrip("?")), "another test's may be near, too"


def test_a_partition_that_there_is_not_is_told(kbroker: Run, topic: str) -> None:
    kbroker("topic", "create", topic, "--partitions", "2")

    for command in ("produce", "consume"):
        refused = kbroker(command, topic, "--partition", "2").refused(ITEM_FAILED)
        assert f"no such partition: {topic}-2 (the topic has 2 partitions)" in refused


def test_a_count_is_kept_over_batches_and_partitions(kbroker: Run, topic: str) -> None:
    kbroker("topic", "create", topic, "--partitions", "2")
    for partition in ("0", "1"):
        kbroker("produce", topic, "--partition", partition, stdin="a\nb\nc\n")

    read = kbroker("consume", topic, "--count", "4")

    assert (read.code, len(read.lines())) == (FINE, 4)


# Several topics, places and forms.


def test_a_closed_standard_input_is_told(bootstrap: str, topic: str) -> None:
    command = f"{shlex.join(PROGRAM)} produce {topic} --bootstrap {bootstrap} <&-"

    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr.count("\n")) == (USAGE, 2), done.stderr
    assert done.stderr.startswith("Error: standard input is closed")


def test_topics_are_read_by_names_and_by_pattern(kbroker: Run, topic: str) -> None:
    names = [f"{topic}-{letter}" for letter in "abc"]
    kbroker("topic", "create", *names, *KEPT)
    for name in names:
        kbroker("produce", name, "--timestamp", "5", stdin=f"of {name}\n")

    named = kbroker("consume", names[0], names[2], "--format", r"%t %v %T\n")
    matched = kbroker("consume", names[0], "--pattern", f"{topic}-[bc]")
    unmatched = kbroker("consume", "--pattern", f"{topic}-")

    assert sorted(named.lines()) == [f"{name} of {name} 5" for name in (names[0], names[2])]
    assert sorted(matched.lines()) == [f"of {name}" for name in names]
    assert f"no topic matches '{topic}-'" in unmatched.refused(ITEM_FAILED)


def test_a_group_reads_several_topics(kbroker: Run, topic: str, group: str) -> None:
    names = [f"{topic}-a", f"{topic}-b"]
    for name in names:
        kbroker("produce", name, stdin=f"of {name}\n")

    read = kbroker("consume", *names, "--group", group)
    again = kbroker("consume", *names, "--group", group)

    assert sorted(read.lines()) == [f"of {name}" for name in names]
    assert (again.code, again.out) == (FINE, "")


def test_reading_begins_and_ends_where_it_is_told(kbroker: Run, topic: str) -> None:
    kbroker("topic", "create", topic, "--partitions", "2", *KEPT)
    day_ms = 86_400_000
    rows = [
        {"partition": partition, "timestamp_ms": day * day_ms, "value": f"{partition}-{day}"}
        for partition in range(2)
        for day in range(1, 5)
    ]
    kbroker("produce", topic, "--input", "jsonl", stdin="\n".join(map(json.dumps, rows)))

    def read(*arguments: str) -> list[str]:
        return sorted(kbroker("consume", topic, *arguments).lines())

    assert read("--from", "-1") == ["0-4", "1-4"]
    assert read("--from", "-3", "--to", "-1", "--partition", "0") == ["0-2", "0-3"]
    assert read("--from", "1970-01-03", "--to", "1970-01-04T12:00:00") == [
        f"{partition}-{day}" for partition in range(2) for day in (2, 3)
    ]


def test_decoders_say_what_values_are(kbroker: Run, topic: str) -> None:
    kbroker("produce", topic, stdin=b"\x00\x00\x00\x2a\nno int\n")

    read = kbroker("consume", topic, "--value-decoder", "int", "--output", "jsonl")

    assert read.code == ITEM_FAILED
    assert [json.loads(line)["value"] for line in read.lines()] == [42, "no int"]
    assert "1 field could not be decoded" in read.err
    assert f"the value at offset 1 of {topic}-0" in read.err


def test_a_topic_is_copied_by_a_pipe(kbroker: Run, topic: str) -> None:
    source, target = f"{topic}-a", f"{topic}-b"
    kbroker("topic", "create", source, target, "--partitions", "3", *KEPT)
    rows = [
        {"partition": 2, "timestamp_ms": 5, "key": "k", "value": None, "headers": []},
        {"partition": 2, "timestamp_ms": 9, "key": "", "value": "", "headers": [["h", None]]},
        {"partition": 0, "timestamp_ms": 7, "key": None, "value": {"base64": "/wA="},
         "headers": [["a", "1"], ["a", "2"], ["a", {"base64": "/w=="}]]},
        {"partition": 0, "timestamp_ms": 1, "key": {"base64": "gA=="}, "value": "値\r\n\u2028",
         "headers": [["", ""]]},
    ]  # fmt: skip
    made = kbroker("produce", source, "--input", "jsonl", stdin="\n".join(map(json.dumps, rows)))

    printed = kbroker("consume", source, "--output", "jsonl").out
    copied = kbroker("produce", target, "--input", "jsonl", stdin=printed)
    again = kbroker("consume", target, "--output", "jsonl").out

    assert (made.code, copied.code) == (FINE, FINE), made.err + copied.err
    assert again.replace(target, source) == printed
    found = [json.loads(line) for line in printed.split("\n")[:-1]]
    kept = [{name: row[name] for name in rows[0]} for row in found]
    assert sorted(kept, key=str) == sorted(rows, key=str)


def test_a_line_that_is_no_record_ends_it_or_is_passed_over(kbroker: Run, topic: str) -> None:
    lines = "a:1\nb:2\nc\nd:4\ne\n"

    stopped = kbroker("produce", topic, "--key-separator", ":", stdin=lines)
    before = kbroker("consume", topic).lines()
    going = kbroker("produce", topic, "--key-separator", ":", "--keep-going", stdin=lines)

    sentence = stopped.refused(ITEM_FAILED)
    assert "line 3: it has no key separator ':'; the 2 records before it are written" in sentence
    assert before == ["1", "2"]
    assert going.code == ITEM_FAILED
    assert [line[:7] for line in going.err.splitlines()] == [
        "line 3:",
        "line 5:",
        "3 recor",
        "Error: ",
    ]
    assert kbroker("consume", topic, "--from", "2").lines() == ["1", "2", "4"]


def test_a_row_that_is_no_record_is_told_by_its_number(kbroker: Run, topic: str) -> None:
    written = kbroker(
        "produce", topic, "--input", "jsonl", stdin='{"value": "v"}\n{"vaule": "w"}\n'
    )

    assert 'line 2: there is no field "vaule", did you mean value?' in written.refused(ITEM_FAILED)
    assert kbroker("consume", topic).lines() == ["v"]


# What happens on the way.


def test_ctrl_c_tells_what_was_acknowledged(kbroker: Run, bootstrap: str, topic: str) -> None:
    kbroker("topic", "create", topic)

    with started("produce", topic, bootstrap=bootstrap) as process:
        assert process.stdin is not None
        process.stdin.write("one\ntwo\n")
        process.stdin.flush()
        until(lambda: kbroker("consume", topic).out == "one\ntwo\n")
        done = interrupted(process)

    assert (done.code, done.out) == (INTERRUPTED, "")
    assert f"interrupted: 2 of 2 records written to {topic}" in done.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
@pytest.mark.parametrize("command", [("topic", "list"), ("consume",), ("version",), ("--help",)])
def test_an_output_that_has_no_room_ends_with_one_sentence(
    kbroker: Run, bootstrap: str, topic: str, command: tuple[str, ...]
) -> None:
    kbroker("produce", topic, stdin="one\n")
    names = (topic,) if command == ("consume",) else ()

    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROGRAM, *command, *names], stdout=full, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "KBROKER_BOOTSTRAP": bootstrap}, timeout=30, check=False,
        )  # fmt: skip

    said = "Error: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (ITEM_FAILED, said)


def test_lines_are_written_once_though_the_broker_goes_away(
    own_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = own_broker()
    run("topic", "create", topic, bootstrap=broker.bootstrap)

    with started("produce", topic, bootstrap=broker.bootstrap) as process:
        assert process.stdin is not None
        process.stdin.write("before\n")
        process.stdin.flush()
        until(lambda: run("consume", topic, bootstrap=broker.bootstrap).out == "before\n")
        broker.stop(signal.SIGKILL)
        process.stdin.write("between\n")
        process.stdin.flush()
        time.sleep(0.5)
        broker.start()
        process.stdin.write("after\n")
        _, err = process.communicate(timeout=30)

    assert (process.returncode, err) == (FINE, f"3 records written to {topic}\n")
    read = run("consume", topic, bootstrap=broker.bootstrap)
    assert read.lines() == ["before", "between", "after"]


@pytest.mark.parametrize(
    ("options", "news"),
    [((), "{topic} can be read again"), (("--group", "followers"), "{address} answers again")],
    ids=["alone", "in a group"],
)
def test_a_follower_tells_that_the_broker_is_away_and_back(
    own_broker: Callable[..., BrokerProcess], topic: str, options: Sequence[str], news: str
) -> None:
    broker = own_broker()
    run("produce", topic, stdin="before\n", bootstrap=broker.bootstrap)

    with started("consume", topic, "--follow", *options, bootstrap=broker.bootstrap) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "before\n"
        broker.stop()
        away = process.stderr.readline()
        broker.start()
        run("produce", topic, stdin="after\n", bootstrap=broker.bootstrap)
        assert process.stdout.readline() == "after\n"
        back = process.stderr.readline()
        done = interrupted(process)

    assert broker.bootstrap in away
    assert "waiting" in away
    assert news.format(topic=topic, address=broker.bootstrap) in back
    assert (done.code, done.out, done.err) == (FINE, "", "")


def test_members_of_a_group_read_no_record_again_when_one_comes_and_goes(
    kbroker: Run, bootstrap: str, topic: str, group: str
) -> None:
    follow = ("consume", topic, "--group", group, "--follow")

    def put(value: str) -> None:
        for partition in ("0", "1"):
            kbroker("produce", topic, "--partition", partition, stdin=f"{value}\n")

    def members() -> list[str]:
        described = kbroker("group", "describe", group, "--members", "--output", "jsonl").lines()
        return [line for line in described if '"Stable"' in line and f"{topic}-" in line]

    kbroker("topic", "create", topic, "--partitions", "2")
    put("old")
    with started(*follow, bootstrap=bootstrap) as first:
        assert first.stdout is not None
        assert [first.stdout.readline() for _ in range(2)] == ["old\n", "old\n"]
        with started(*follow, bootstrap=bootstrap) as second:
            assert second.stdout is not None
            until(lambda: len(members()) == 2, "two members that read")
            put("new")
            assert [each.stdout.readline() for each in (first, second)] == ["new\n", "new\n"]
            assert interrupted(second).out == ""
        assert interrupted(first).out == ""

    assert kbroker("consume", topic, "--group", group).out == ""


def test_a_follower_tells_that_the_topic_was_deleted_and_made_again(
    kbroker: Run, bootstrap: str, topic: str
) -> None:
    kbroker("topic", "create", topic)
    kbroker("produce", topic, stdin="first\nlife\n")

    with started("consume", topic, "--follow", bootstrap=bootstrap) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert [process.stdout.readline() for _ in range(2)] == ["first\n", "life\n"]
        kbroker("topic", "delete", topic)
        gone = process.stderr.readline()
        kbroker("topic", "create", topic)
        again = process.stderr.readline()
        kbroker("produce", topic, stdin="second life\n")
        assert process.stdout.readline() == "second life\n"
        done = interrupted(process)

    assert f"the topic {topic} was deleted" in gone
    assert "created again" in again
    assert done.code == FINE


def test_a_follower_reads_topics_and_partitions_that_are_made_later(
    kbroker: Run, bootstrap: str, topic: str
) -> None:
    kbroker("topic", "create", topic)
    kbroker("produce", topic, stdin="first\n")

    with started("consume", "--pattern", f"{topic}.*", "--follow", bootstrap=bootstrap) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "first\n"
        kbroker("topic", "alter", topic, "--partitions", "2")
        kbroker("produce", topic, "--partition", "1", stdin="new partition\n")
        kbroker("produce", f"{topic}-more", stdin="new topic\n")
        found = {process.stdout.readline() for _ in range(2)}
        done = interrupted(process)

    assert found == {"new partition\n", "new topic\n"}
    assert (done.code, done.out, done.err) == (FINE, "", "")
