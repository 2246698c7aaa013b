"""`log dump` and `log stats` over directories that Apache Kafka brokers wrote: they show what Kafka's
own dump tool and a Java client showed.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import shutil
from collections import defaultdict
from collections.abc import Iterable
from errno import EACCES
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kbroker.cli.log.commands import log
from kbroker.log.disk.file_system import RealFileSystem, StorageError
from tests.golden import golden_logs

DUMPED = (*golden_logs.CLEAN, golden_logs.COMPACTED[1])
ALL = (*golden_logs.CLEAN, *golden_logs.COMPACTED, golden_logs.OLD_FORMATS)
CLEAN = golden_logs.CLEAN[0]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(log, [str(argument) for argument in arguments])


def dumped(*arguments: object) -> list[dict[str, Any]]:
    result = run("dump", *arguments, "--output", "jsonl")
    assert (result.exit_code, result.stderr) == (0, "")
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory):
    return cache(lambda name: golden_logs.unpack(name, tmp_path_factory.mktemp("logs")))


def told_by_kafka(name: str, suffix: str) -> dict[str, list[dict[str, Any]]]:
    """Return the output of Kafka's tool for each file of a kind."""
    found = defaultdict(list)
    for row in golden_logs.lines(name, "segments"):
        if row["file"].endswith(suffix):
            found[row["file"]].append(row)
    assert found
    return found


def optional(text: str) -> int | None:
    """`OptionalLong[11]` and `OptionalLong.empty`."""
    return int(text[13:-1]) if text.endswith("]") else None


@pytest.mark.parametrize("name", DUMPED)
def test_batches_are_those_of_kafkas_tool(name: str, unpacked) -> None:
    for file, rows in told_by_kafka(name, ".log").items():
        got = dumped(unpacked(name) / file)

        assert [
            (
                row["position"], row["base_offset"], row["last_offset"], row["records"],
                row["base_sequence"], row["last_sequence"], row["producer_id"],
                row["producer_epoch"], row["leader_epoch"], row["transactional"], row["control"],
                row["size_bytes"], row["format"], row["codec"], row["crc"], row["crc_ok"],
                row["delete_horizon_ms"], row["max_timestamp_ms"],
            )
            for row in got
        ] == [
            (
                row["position"], row["baseOffset"], row["lastOffset"], row["count"],
                row["baseSequence"], row["lastSequence"], row["producerId"],
                row["producerEpoch"], row["partitionLeaderEpoch"], row["isTransactional"],
                row["isControl"], row["size"], row["magic"], row["compresscodec"], row["crc"],
                row["isvalid"], optional(row["deleteHorizonMs"]),
                row.get("CreateTime", row.get("LogAppendTime")),
            )
            for row in rows
        ]  # fmt: skip


@pytest.mark.parametrize("name", DUMPED)
@pytest.mark.parametrize(
    ("suffix", "kafkas", "ours"),
    [
        (".index", ("offset", "position"), ("offset", "position")),
        (".timeindex", ("timestamp", "offset"), ("timestamp_ms", "offset")),
        (
            ".txnindex",
            ("producerId", "firstOffset", "lastOffset", "lastStableOffset"),
            ("producer_id", "first_offset", "last_offset", "last_stable_offset"),
        ),
        (
            ".snapshot",
            ("producerId", "producerEpoch", "coordinatorEpoch", "lastTimestamp", "lastOffset"),
            ("producer_id", "producer_epoch", "coordinator_epoch", "timestamp_ms", "last_offset"),
        ),
    ],
)
def test_entries_are_those_of_kafkas_tool(
    name: str, suffix: str, kafkas: tuple[str, ...], ours: tuple[str, ...], unpacked
) -> None:
    for file, rows in told_by_kafka(name, suffix).items():
        got = {tuple(row[field] for field in ours) for row in dumped(unpacked(name) / file)}
        wanted = {tuple(_unknown_as_none(row[field]) for field in kafkas) for row in rows}

        assert _without_placeholders(wanted) == got


def _unknown_as_none(value: Any) -> Any:
    return None if value in ("None", "") else value


def _without_placeholders(rows: Iterable[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    """Kafka's tool shows an empty offset index as one entry of zeros."""
    return {row for row in rows if row != (0, 0)}


def decoded(value: Any) -> bytes | None:
    if isinstance(value, dict):
        return base64.b64decode(value["base64"])
    return None if value is None else value.encode()


def unpacked_base64(value: str | None) -> bytes | None:
    return None if value is None else base64.b64decode(value)


@pytest.mark.parametrize("name", ALL)
def test_records_are_those_a_client_reads(name: str, unpacked) -> None:
    expected = defaultdict(dict)
    for row in golden_logs.lines(name, "expected"):
        if row["kind"] == "record" and row["isolation"] == "read_uncommitted":
            headers = [[key, unpacked_base64(value)] for key, value in row["headers"]]
            expected[row["topic"], row["partition"]][row["offset"]] = (
                row["timestamp"], unpacked_base64(row["key"]), unpacked_base64(row["value"]), headers,
            )  # fmt: skip

    assert expected
    for (topic, partition), records in expected.items():
        got = {
            row["offset"]: (
                row["timestamp_ms"], decoded(row["key"]), decoded(row["value"]),
                [[key, decoded(value)] for key, value in row["headers"]],
            )
            for row in dumped(unpacked(name), "--topic", topic, "--partition", partition, "--records")
            if not (isinstance(row["key"], dict) and "control" in row["key"])
        }  # fmt: skip
        start = min(records)
        assert {offset: record for offset, record in got.items() if offset >= start} == records


def test_markers_are_shown_in_words(unpacked) -> None:
    rows = dumped(unpacked(CLEAN) / "txn-0", "--records", "--offsets", "17-26")

    markers = {row["offset"]: row["key"] for row in rows if isinstance(row["key"], dict)}
    assert markers == {17: {"control": "commit"}, 26: {"control": "abort"}}


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ("7-9", [7, 8, 9]),
        ("38-", [38, 39]),
        ("-1", [0, 1]),
        ("5", [5]),
        ("4-4", [4]),
    ],
)
def test_only_the_wanted_offsets_are_shown(offsets: str, expected: list[int], unpacked) -> None:
    rows = dumped(unpacked(CLEAN) / "plain-0", "--records", "--offsets", offsets)

    assert [row["offset"] for row in rows] == expected


def test_offsets_that_are_not_there_leave_nothing_to_show(unpacked) -> None:
    result = run("dump", unpacked(CLEAN) / "plain-0", "--records", "--offsets", "90-99")

    said = (result.exit_code, result.stdout, result.stderr)
    assert said == (0, "", "no entries in --offsets 90-99\n")


def test_committed_offsets_and_groups_are_decoded(unpacked) -> None:
    rows = dumped(unpacked(CLEAN), "--topic", "__consumer_offsets", "--decode")

    committed = {
        (row["key"]["group"], row["key"]["topic"], row["key"]["partition"]): row["value"]["offset"]
        for row in rows
        if row["key"].get("kind") == "offset" and row["value"] is not None
    }
    groups = {
        row["key"]["group"]: [member["member_id"] for member in row["value"]["members"]]
        for row in rows
        if row["key"].get("kind") == "group" and row["value"] is not None
    }
    expected = {
        (row["group"], row["topic"], row["partition"]): row["offset"]
        for row in golden_logs.lines(CLEAN, "expected")
        if row["kind"] == "committed"
    }
    assert {key: committed[key] for key in expected} == expected
    assert len(groups["g-live"]) == 1


def test_transactions_are_decoded(unpacked) -> None:
    rows = dumped(unpacked(CLEAN), "--topic", "__transaction_state", "--decode")

    last = {row["key"]["transactional_id"]: row["value"] for row in rows}
    assert last["tx-open"]["transaction_status"] == "Ongoing"
    assert {"topic": "txn", "partition_ids": [0]} in last["tx-open"]["transaction_partitions"]
    assert last["tx-many-10"]["transaction_status"] == "CompleteCommit"


@pytest.mark.parametrize("name", golden_logs.CLEAN)
@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_every_internal_record_can_be_decoded(name: str, topic: str, unpacked) -> None:
    rows = dumped(unpacked(name), "--topic", topic, "--decode")

    assert rows
    assert not [row for row in rows if "unreadable" in str(row["key"])]


def test_small_files_are_shown(unpacked) -> None:
    directory = unpacked(CLEAN)

    assert {"topic": "records-deleted", "partition": 0, "offset": 37} in dumped(
        directory / "log-start-offset-checkpoint"
    )
    assert dumped(directory / "meta.properties")[0]["broker_id"] == 0
    assert dumped(directory / "epochs-0" / "leader-epoch-checkpoint")[0]["epoch"] == 0
    (row,) = dumped(directory / "plain-0" / "partition.metadata")
    assert len(row["topic_id"]) == 22


@pytest.mark.parametrize("output", ["table", "csv", "json"])
def test_the_other_outputs_hold_the_same_rows(output: str, unpacked) -> None:
    directory = unpacked(CLEAN) / "plain-0"
    wanted = [row["offset"] for row in dumped(directory, "--records")]

    text = run("dump", directory, "--records", "--output", output).stdout

    if output == "json":
        assert [row["offset"] for row in json.loads(text)] == wanted
    elif output == "csv":
        assert [int(row["offset"]) for row in csv.DictReader(io.StringIO(text))] == wanted
    else:
        assert [int(line.split()[2]) for line in text.splitlines()[1:]] == wanted


def test_what_is_broken_is_said_and_passed_over(tmp_path: Path) -> None:
    directory = golden_logs.unpack(golden_logs.DAMAGED[0], tmp_path)

    shown = run("dump", directory / "codec-zstd-0", "--records", "--output", "jsonl")
    torn = run("dump", directory / "plain-0", "--output", "jsonl")
    batches = run("dump", directory / "codec-zstd-0", "--output", "jsonl")

    assert shown.exit_code == torn.exit_code == 1
    assert "the CRC is wrong, the batch is left out" in shown.stderr
    assert json.loads(shown.stdout.splitlines()[-1])["offset"] == 68
    assert "lacks its last 7" in torn.stderr
    assert json.loads(batches.stdout.splitlines()[-1])["crc_ok"] is False


def test_batches_behind_a_damaged_length_are_shown(unpacked, tmp_path: Path) -> None:
    directory = shutil.copytree(unpacked(CLEAN) / "plain-0", tmp_path / "plain-0")
    (first, second, *rest) = dumped(directory)
    segment = directory / first["file"]
    data = bytearray(segment.read_bytes())
    data[second["position"] + 9] ^= 0x40
    segment.write_bytes(data)

    shown = run("dump", directory, "--output", "jsonl")

    assert shown.exit_code == 1
    assert f"position {second['position']}" in shown.stderr
    offsets = [json.loads(line)["base_offset"] for line in shown.stdout.splitlines()]
    assert offsets == [first["base_offset"], *(row["base_offset"] for row in rest)]


@pytest.mark.parametrize("name", ALL)
def test_stats_count_what_the_files_hold(name: str, unpacked) -> None:
    directory = unpacked(name)

    rows = json.loads(run("stats", directory, "--output", "json").stdout)

    sizes = defaultdict(int)
    for file in directory.glob("*/*.log"):
        sizes[file.parent.name] += file.stat().st_size
    assert {f"{row['topic']}-{row['partition']}": row["size_bytes"] for row in rows} == sizes
    assert all(sum(row["codecs"].values()) == row["size_bytes"] for row in rows)
    assert all(sum(row["formats"].values()) == row["batches"] for row in rows)


def test_stats_of_one_topic(unpacked) -> None:
    (row,) = json.loads(
        run("stats", unpacked(CLEAN), "--topic", "codec-gzip", "--output", "json").stdout
    )

    assert (row["records"], row["first_offset"], row["last_offset"]) == (60, 0, 59)
    assert (row["missing_offsets"], row["unreadable_bytes"]) == (0, 0)
    assert (row["first_timestamp_ms"], row["last_timestamp_ms"]) == (1700000000000, 1700000059000)
    assert list(row["codecs"]) == ["gzip"]


def test_stats_tell_of_compaction_and_sort(unpacked) -> None:
    rows = json.loads(
        run("stats", unpacked(CLEAN), "--by-topic", "--sort", "missing_offsets", "--output", "json")
        .stdout
    )  # fmt: skip

    missing = [row["missing_offsets"] for row in rows]
    assert rows[0]["topic"] in ("compacted", "compacted-txn", "__consumer_offsets")
    assert missing == sorted(missing, reverse=True)
    assert {row["topic"]: row["partitions"] for row in rows}["plain"] == 2


@pytest.mark.parametrize("command", ["dump", "verify", "stats"])
def test_wrong_paths_are_said_in_one_sentence(command: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("x")
    (tmp_path / "named" / "dbus-1").mkdir(parents=True)
    (tmp_path / "named" / "dbus-1" / "session.conf").write_text("x")
    (tmp_path / "cluster" / "broker-0").mkdir(parents=True)
    (tmp_path / "cluster" / "broker-0" / "meta.properties").write_text("broker.id=0\n")

    for path, sentence in [
        ("missing", "does not exist"),
        ("empty", "is empty"),
        ("other", "neither a data directory"),
        ("named", "neither a data directory"),
        ("cluster", f"has those of brokers in it: give {tmp_path}/cluster/broker-0"),
        ("other/notes.txt", "not a directory" if command != "dump" else "not a file of a log"),
    ]:
        result = run(command, tmp_path / path)
        assert (result.exit_code, result.stdout) == (2, "")
        assert sentence in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((".",), "give --topic"),
        (("plain-0", "--decode"), "of plain"),
        (("plain-0", "--offsets", "9-5"), "ends before it begins"),
        (("plain-0", "--offsets", "x"), "not FROM-TO"),
        (("meta.properties", "recovery-point-offset-checkpoint"), "different rows"),
        (("plain-0", "meta.properties"), "dump them in turn"),
    ],
)
def test_wrong_use_of_dump_is_said(arguments: tuple[str, ...], sentence: str, unpacked) -> None:
    directory = unpacked(CLEAN)
    paths = [directory / a if a == "." or (directory / a).exists() else a for a in arguments]

    result = run("dump", *paths)

    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr


def test_a_topic_that_is_not_there_is_a_failed_item(unpacked) -> None:
    dump = run("dump", unpacked(CLEAN), "--topic", "nobody")
    stats = run("stats", unpacked(CLEAN), "--topic", "nobody")

    assert (dump.exit_code, stats.exit_code) == (1, 1)
    assert ": nobody" in dump.stderr + stats.stderr


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        (CLEAN, (), 0),
        (CLEAN, ("--strict", "--deep"), 0),
        (golden_logs.UNCLEAN[0], (), 0),
        (golden_logs.DAMAGED[0], (), 1),
    ],
)
def test_the_exit_code_of_verify(
    name: str, arguments: tuple[str, ...], code: int, unpacked
) -> None:
    result = run("verify", unpacked(name), *arguments)

    assert result.exit_code == code
    assert "batches" in result.stderr
    assert "MB/s" in result.stderr


def test_strict_makes_warnings_count(tmp_path: Path) -> None:
    directory = golden_logs.unpack(CLEAN, tmp_path)
    (directory / "plain-0" / "00000000000000000000.index").unlink()

    assert run("verify", directory).exit_code == 0
    assert run("verify", directory, "--strict").exit_code == 1


def test_findings_are_sentences_or_rows(unpacked) -> None:
    directory = unpacked(golden_logs.DAMAGED[0])

    text = run("verify", directory, "--quiet")
    rows = json.loads(run("verify", directory, "--output", "json").stdout)

    assert f"error: {directory}/plain-0/00000000000000000046.log (position 288): " in text.stdout
    assert "info: " not in text.stdout
    assert {row["severity"] for row in rows} == {"error", "warning", "info"}
    assert {row["code"] for row in rows} >= {"batch-torn", "batch-crc", "snapshot-missing"}


@pytest.mark.parametrize("command", ["dump", "verify", "stats"])
def test_a_directory_that_may_not_be_read_is_said(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t-0").mkdir()

    def refuse(_self: RealFileSystem, path: str) -> list[str]:
        raise StorageError(path, "list", EACCES)

    monkeypatch.setattr(RealFileSystem, "list", refuse)

    result = run(command, tmp_path / "t-0")

    assert (result.exit_code, result.stdout) == (1, "")
    assert f"cannot list {tmp_path}/t-0: Permission denied" in result.stderr


@pytest.mark.parametrize(("is_same_broker", "expected"), [(True, ["partition-twice"]), (False, [])])
def test_directories_of_one_broker_are_held_against_each_other(
    is_same_broker: bool, expected: list[str], unpacked, tmp_path: Path
) -> None:
    first, second = unpacked(CLEAN), tmp_path / "second"
    (second / "plain-0").mkdir(parents=True)
    (second / "plain-0" / f"{0:020d}.log").write_bytes(b"")
    owner = (first / "meta.properties").read_text()
    if not is_same_broker:
        owner = owner.replace("broker.id=0", "broker.id=3")
    (second / "meta.properties").write_text(owner)

    rows = json.loads(run("verify", first, second, "--output", "json").stdout)

    assert [row["code"] for row in rows if row["severity"] == "error"] == expected
