"""The command line as its users meet it: exit codes, data on standard output, everything else on
standard error.
"""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from compat_tests.commands.command_line import (
    CANNOT_CONNECT,
    FINE,
    HEEDING,
    ITEM_FAILED,
    PROGRAM,
    TIMED_OUT,
    UNUSED,
    USAGE,
    Done,
    Run,
    run,
)
from compat_tests.conftest import BrokerProcess
from compat_tests.wire.record_bytes import batch
from compat_tests.wire.wire_client import WireClient


@pytest.fixture
def made(bootstrap: str) -> str:
    """A topic of one partition."""
    wire = WireClient(bootstrap)
    topic = wire.create_topic()
    wire.close()
    return topic


def records(done: Done) -> list[tuple[object, object]]:
    """Keys and values of what `consume --output jsonl` printed."""
    assert done.code == FINE, done.err
    return [(row["key"], row["value"]) for row in map(json.loads, done.lines())]


def test_topics_are_created_listed_described_altered_and_deleted(
    one_broker: None, kbroker: Run, topic: str
) -> None:
    created = kbroker(
        "topic", "create", topic, "--partitions", "2", "--config", "retention.ms=1000"
    )
    assert (created.code, created.out) == (FINE, "")
    assert topic in created.err

    listed = [line.split() for line in kbroker("topic", "list").lines()]
    assert [topic, "2", "1", "0", "0", "no"] in listed

    described = kbroker("topic", "describe", topic, "--output", "json")
    rows = json.loads(described.out)
    assert [(row["topic"], row["partition"], row["end_offset"]) for row in rows] == [
        (topic, 0, 0),
        (topic, 1, 0),
    ]
    settings = [line.split() for line in kbroker("topic", "describe", topic).lines()]
    assert [topic, "retention.ms", "1000", "topic"] in settings

    altered = kbroker("topic", "alter", topic, "--partitions", "3", "--config", "retention.ms=2000")
    assert (altered.code, altered.out) == (FINE, "")
    described = kbroker("topic", "describe", topic, "--output", "jsonl")
    assert len(described.lines()) == 3
    assert settings_of(kbroker, topic)["retention.ms"] == ("2000", "topic")

    deleted = kbroker("topic", "delete", topic)
    assert (deleted.code, deleted.out) == (FINE, "")
    gone = kbroker("topic", "describe", topic, "--output", "jsonl")
    assert topic in gone.refused(ITEM_FAILED)


def settings_of(kbroker: Run, topic: str, *options: str) -> dict[str, tuple[str, str]]:
    """Value and origin of settings of a topic, by name."""
    done = kbroker("config", "describe", "--topic", topic, "--output", "jsonl", *options)
    assert done.code == FINE, done.err
    rows = [json.loads(line) for line in done.lines()]
    return {row["setting"]: (row["value"], row["origin"]) for row in rows}


def test_an_existing_topic_is_a_failed_item_unless_that_is_fine(kbroker: Run, made: str) -> None:
    assert "TOPIC_ALREADY_EXISTS" in kbroker("topic", "create", made).refused(ITEM_FAILED)
    assert kbroker("topic", "create", made, "--if-not-exists").code == FINE


def test_a_missing_topic_is_a_failed_item_unless_that_is_fine(kbroker: Run, topic: str) -> None:
    assert topic in kbroker("topic", "delete", topic).refused(ITEM_FAILED)
    assert kbroker("topic", "delete", topic, "--if-exists").code == FINE
    assert topic in kbroker("consume", topic).refused(ITEM_FAILED)


def test_one_bad_topic_does_not_spoil_the_others(kbroker: Run, topic: str) -> None:
    created = kbroker("topic", "create", topic, "bad name")
    assert "INVALID_TOPIC_EXCEPTION" in created.refused(ITEM_FAILED)
    assert kbroker("topic", "describe", topic).code == FINE


def test_a_bad_topic_setting_is_one_sentence(kbroker: Run, topic: str, made: str) -> None:
    created = kbroker("topic", "create", topic, "--config", "retention.ms=abc")
    assert "retention.ms" in created.refused(ITEM_FAILED)
    altered = kbroker("topic", "alter", made, "--config", "retention.ms=abc")
    assert "retention.ms" in altered.refused(ITEM_FAILED)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_was_produced_is_consumed(kbroker: Run, made: str, codec: str) -> None:
    lines = "one\ntwo\n値\n"
    written = kbroker("produce", made, "--compression", codec, stdin=lines)
    assert (written.code, written.out) == (FINE, "")
    assert "3 records" in written.err
    read = kbroker("consume", made)
    assert (read.code, read.out) == (FINE, lines)


def test_keys_headers_and_tombstones_are_written(kbroker: Run, made: str) -> None:
    written = kbroker(
        "produce", made, "--key-separator", ":", "--null-value",
        "--header", "a=1", "--header", "b=x=y", stdin="k1:v1\nk2:\n:no key\n",
    )  # fmt: skip
    assert written.code == FINE, written.err
    assert kbroker("produce", made, "--key", "all", stdin="v2\n").code == FINE
    read = kbroker("consume", made, "--output", "jsonl")
    assert records(read) == [("k1", "v1"), ("k2", None), ("", "no key"), ("all", "v2")]
    first = json.loads(read.lines()[0])
    assert first["headers"] == [["a", "1"], ["b", "x=y"]]
    assert (first["topic"], first["partition"], first["offset"]) == (made, 0, 0)
    assert abs(first["timestamp_ms"] - time.time() * 1000) < 60_000


def test_records_come_as_json_and_csv_too(kbroker: Run, made: str) -> None:
    kbroker("produce", made, "--key", "k", stdin='a,b\n"quoted"\n')
    rows = json.loads(kbroker("consume", made, "--output", "json").out)
    assert [row["value"] for row in rows] == ["a,b", '"quoted"']
    table = list(csv.DictReader(kbroker("consume", made, "--output", "csv").lines()))
    assert [(row["key"], row["value"], row["offset"]) for row in table] == [
        ("k", "a,b", "0"),
        ("k", '"quoted"', "1"),
    ]


def test_an_empty_topic_gives_empty_outputs(kbroker: Run, made: str) -> None:
    assert kbroker("consume", made) == Done(FINE, "", "")
    assert json.loads(kbroker("consume", made, "--output", "json").out) == []
    assert len(kbroker("consume", made, "--output", "csv").lines()) == 1


def test_bytes_that_are_no_text_are_not_changed_unseen(kbroker: Run, made: str) -> None:
    kbroker("produce", made, stdin=b"\xff\xfe\n")
    assert records(kbroker("consume", made, "--output", "jsonl")) == [(None, {"base64": "//4="})]


def test_consuming_begins_where_it_is_told(kbroker: Run, bootstrap: str, made: str) -> None:
    wire = WireClient(bootstrap)
    now_ms = int(time.time() * 1000)
    for value_bytes, hours in ((1, 2), (2, 0), (3, 0)):
        stored = wire.produce(made, batch(1, value_bytes, now_ms - hours * 3_600_000))
        assert stored.startswith("0;")
    wire.close()
    assert kbroker("consume", made, "--from", "start").lines() == ["v", "vv", "vvv"]
    assert kbroker("consume", made, "--from", "-1h").lines() == ["vv", "vvv"]
    assert kbroker("consume", made, "--from", "2").lines() == ["vvv"]
    assert kbroker("consume", made, "--from", "end").lines() == []
    assert kbroker("consume", made, "--count", "2").lines() == ["v", "vv"]


def test_an_offset_beyond_the_end_is_told(kbroker: Run, made: str) -> None:
    kbroker("produce", made, stdin="v\n")

    refused = kbroker("consume", made, "--from", "99").refused(ITEM_FAILED)

    assert "--from 99 is beyond the end offset 1" in refused


def test_a_missing_topic_is_told_to_a_producer(own_broker: Callable[..., BrokerProcess]) -> None:
    broker = own_broker("--override", "auto.create.topics.enable=false")

    refused = run("produce", "nowhere", stdin="v\n", bootstrap=broker.bootstrap)

    assert "no such topic: nowhere" in refused.refused(ITEM_FAILED)


def test_following_goes_on_until_ctrl_c(kbroker: Run, bootstrap: str, made: str) -> None:
    assert kbroker("produce", made, stdin="before\n").code == FINE
    # Whoever runs tests in the background has Ctrl-C ignored, and children inherit that.
    following = subprocess.Popen(
        [*HEEDING, *PROGRAM, "consume", made, "--follow", "--bootstrap", bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert following.stdout is not None
    assert following.stdout.readline() == "before\n"
    assert kbroker("produce", made, stdin="after\n").code == FINE
    assert following.stdout.readline() == "after\n"
    following.send_signal(signal.SIGINT)
    out, err = following.communicate(timeout=10)
    assert (following.returncode, out, err) == (FINE, "", "")


def test_a_reader_that_goes_away_is_no_error(kbroker: Run, bootstrap: str, made: str) -> None:
    assert kbroker("produce", made, stdin="x" * 100 + "\n").code == FINE
    command = f"{' '.join(PROGRAM)} consume {made} --bootstrap {bootstrap} | head -c 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, timeout=30, check=False
    )
    assert (done.stdout, done.stderr) == (b"x", b"")


def test_a_group_shows_its_lag(kbroker: Run, made: str, group: str) -> None:
    kbroker("produce", made, stdin="1\n2\n3\n4\n5\n")
    read = kbroker("consume", made, "--group", group, "--count", "3")
    assert (read.code, read.lines()) == (FINE, ["1", "2", "3"])

    listed = kbroker("group", "list", "--output", "jsonl")
    assert group in {row["group"] for row in map(json.loads, listed.lines())}

    described = kbroker("group", "describe", group, "--output", "json")
    (row,) = json.loads(described.out)
    assert (row["topic"], row["partition"], row["state"]) == (made, 0, "Empty")
    assert (row["committed_offset"], row["end_offset"], row["lag"]) == (3, 5, 2)

    rest = kbroker("consume", made, "--group", group)
    assert (rest.code, rest.lines()) == (FINE, ["4", "5"])


def test_an_unknown_group_is_a_failed_item(kbroker: Run, group: str) -> None:
    described = kbroker("group", "describe", group, "--output", "jsonl")
    assert group in described.refused(ITEM_FAILED)


def test_a_running_broker_is_waited_for_and_healthy(kbroker: Run, made: str) -> None:
    assert kbroker("wait", "--timeout", "5") == Done(FINE, "", "")
    assert kbroker("wait", "--timeout", "5", "--topic", made) == Done(FINE, "", "")
    healthy = kbroker("health")
    assert (healthy.code, healthy.out) == (FINE, ""), healthy.err


def test_waiting_for_a_topic_that_does_not_come_times_out(kbroker: Run, topic: str) -> None:
    waited = kbroker("wait", "--timeout", "0.5", "--topic", topic)
    assert topic in waited.refused(TIMED_OUT)


def test_waiting_for_nobody_times_out() -> None:
    before = time.monotonic()
    assert UNUSED in run("wait", "--timeout", "0.3", "--bootstrap", UNUSED).refused(TIMED_OUT)
    assert time.monotonic() - before < 3


@pytest.mark.parametrize(
    "command",
    [
        ("health",),
        ("topic", "list"),
        ("topic", "create", "t"),
        ("produce", "t"),
        ("consume", "t"),
        ("group", "list"),
    ],
    ids=" ".join,
)
def test_where_nobody_listens_there_is_no_connection(command: tuple[str, ...]) -> None:
    assert UNUSED in run(*command, "--bootstrap", UNUSED).refused(CANNOT_CONNECT)


def test_a_port_that_takes_connections_and_says_nothing_is_told_as_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        said = run("topic", "list", "--bootstrap", address).refused(TIMED_OUT)
    assert f"{address} did not answer in time" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("topic", "create"),
        ("topic", "alter", "t"),
        ("topic", "create", "t", "--config", "no-equals-sign"),
        ("consume", "t", "--from", "last year"),
        ("consume", "t", "--count", "0"),
        ("consume", "t", "--output", "xml"),
        ("consume",),
        ("consume", "t", "--to", "tomorrow"),
        ("consume", "t", "--follow", "--to", "end"),
        ("consume", "t", "--format", "%x"),
        ("consume", "t", "--format", "%v", "--output", "json"),
        ("consume", "t", "--value-decoder", "rot13"),
        ("consume", "--pattern", "["),
        ("consume", "t", "--group", "g", "--partition", "0"),
        ("consume", "t", "--group", "g", "--from", "-1h"),
        ("consume", "t", "--group", "g", "--to", "end"),
        ("produce", "t", "--timestamp", "last year"),
        ("produce", "t", "--input", "jsonl", "--key", "k"),
        ("produce", "t", "--key", "k", "--key-separator", ":"),
        ("produce", "t", "--compression", "rar"),
        ("topic", "list", "--bootstrap", "no-port"),
        ("config", "describe"),
        ("config", "alter", "--topic", "t"),
        ("group", "reset", "g", "--to", "last year"),
        ("start", "--nonsense"),
        ("start", "--profile", "test"),
        ("start", "--override", "no-equals-sign"),
    ],
    ids=" ".join,
)
def test_a_command_that_makes_no_sense_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    run(*arguments).refused(USAGE)


def test_the_version_is_data(target: str) -> None:
    printed = run("version")
    assert printed.code == FINE
    assert re.fullmatch(r"kbroker \d+\.\d+\.\d+\S*\n", printed.out)


@pytest.mark.parametrize("command", [(), ("topic",), ("start",), ("consume",)], ids=" ".join)
def test_help_is_there(command: tuple[str, ...]) -> None:
    shown = run(*command, "--help")
    assert (shown.code, shown.err) == (FINE, "")
    assert "Usage: kbroker" in shown.out


# Starting and stopping a broker.


@dataclass
class Started:
    """A broker started by hand, so that its outputs can be seen whole."""

    process: subprocess.Popen[str]
    first_line: str

    def stop(self, how: signal.Signals) -> Done:
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=15)
        return Done(self.process.returncode, self.first_line + out, err)


@pytest.fixture
def start(target: str) -> Iterator[Callable[..., Started]]:
    if target != "kbroker":
        pytest.skip("starts a kbroker")
    processes = []

    def start_one(*arguments: str) -> Started:
        process = subprocess.Popen(
            [*PROGRAM, "start", "--listen", "127.0.0.1:0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        return Started(process, process.stdout.readline())

    yield start_one
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_broker_says_where_it_listens_and_stops_cleanly(
    start: Callable[..., Started], tmp_path: Path, how: signal.Signals
) -> None:
    broker = start("--data", str(tmp_path / "data"))
    before = time.monotonic()
    stopped = broker.stop(how)
    assert time.monotonic() - before < 2
    assert stopped.code == FINE, stopped.err
    assert re.fullmatch(r"listening on 127\.0\.0\.1:[1-9]\d*\n", stopped.out)
    assert "Traceback" not in stopped.err
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_the_address_that_is_printed_is_served(start: Callable[..., Started]) -> None:
    broker = start()
    address = broker.first_line.removeprefix("listening on ").strip()
    assert run("produce", "first", "--bootstrap", address, stdin="hello\n").code == FINE
    assert run("consume", "first", "--bootstrap", address).out == "hello\n"
    assert broker.stop(signal.SIGTERM).code == FINE


def test_data_without_a_directory_goes_at_the_end(start: Callable[..., Started]) -> None:
    stopped = start().stop(signal.SIGTERM)
    found = re.search(r"data in (\S+?),", stopped.err)
    assert found is not None, stopped.err
    assert not Path(found[1]).exists()


def start_refused(*arguments: str) -> str:
    """The sentence of a start that failed."""
    done = run("start", *arguments)
    assert done.code in (ITEM_FAILED, USAGE)
    return done.refused(done.code)


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = start_refused("--listen", address, "--data", str(tmp_path / "data"))
    assert address in refused or address.rpartition(":")[2] in refused


def test_a_data_directory_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    path = str(tmp_path / "file")
    assert path in start_refused("--listen", "127.0.0.1:0", "--data", path)
    below = str(tmp_path / "file" / "data")
    assert below in start_refused("--listen", "127.0.0.1:0", "--data", below)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_data_directory_is_named(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o000)
    assert str(data) in start_refused("--listen", "127.0.0.1:0", "--data", str(data))


def test_a_data_directory_in_use_is_named(own_broker: Callable[..., BrokerProcess]) -> None:
    data = str(own_broker().data)
    assert data in start_refused("--listen", "127.0.0.1:0", "--data", data)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("log.segment.bytes=abc", ("log.segment.bytes", "abc")),
        ("log.segment.bytes=1", ("log.segment.bytes", "1", "14")),
        ("num.partitions=0", ("num.partitions", "0", "1")),
        ("listeners=nonsense", ("listeners", "nonsense")),
        ("compression.type=rar", ("compression.type", "rar", "zstd")),
    ],
)
def test_a_bad_value_is_named_with_its_bound(
    tmp_path: Path, override: str, said: tuple[str, ...]
) -> None:
    refused = start_refused("--data", str(tmp_path / "data"), "--override", override)
    assert [part for part in said if part not in refused] == []


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:70000", "127.0.0.1:x"])
def test_a_bad_address_is_named(tmp_path: Path, address: str) -> None:
    assert address in start_refused("--listen", address, "--data", str(tmp_path / "data"))


def test_an_address_of_another_machine_is_named(tmp_path: Path) -> None:
    address = "203.0.113.1:0"
    refused = start_refused("--listen", address, "--data", str(tmp_path / "data"))
    assert "203.0.113.1" in refused


def test_a_missing_properties_file_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "no.properties")
    assert path in start_refused(path, "--data", str(tmp_path / "data"))


def test_an_unknown_setting_warns_with_the_nearest_name(
    start: Callable[..., Started], tmp_path: Path
) -> None:
    broker = start("--data", str(tmp_path / "data"), "--override", "log.segment.byte=1000000")
    stopped = broker.stop(signal.SIGTERM)
    assert stopped.code == FINE
    (warning,) = [
        line for line in stopped.err.splitlines() if re.search(r"log\.segment\.byte\b", line)
    ]
    assert "log.segment.bytes" in warning


def test_settings_come_from_a_properties_file_and_options_win(
    start: Callable[..., Started], tmp_path: Path
) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"num.partitions=3\nlog.dirs={tmp_path / 'data'}\nbroker.id=7\n")
    broker = start(str(properties), "--override", "num.partitions=5")
    address = broker.first_line.removeprefix("listening on ").strip()
    assert run("topic", "create", "t", "--bootstrap", address).code == FINE
    described = run("topic", "describe", "t", "--output", "jsonl", "--bootstrap", address)
    assert [json.loads(line)["leader"] for line in described.lines()] == [7] * 5
    assert broker.stop(signal.SIGTERM).code == FINE
    assert (tmp_path / "data" / "meta.properties").exists()


def test_records_outlive_a_restart(own_broker: Callable[..., BrokerProcess]) -> None:
    broker = own_broker()
    assert run("produce", "t", "--bootstrap", broker.bootstrap, stdin="kept\n").code == FINE
    assert broker.stop() == FINE
    broker.start()
    assert run("consume", "t", "--bootstrap", broker.bootstrap).out == "kept\n"
