"""What commands and jobs make of a partition in which batches stand that cannot be read: the others
are read, and each that cannot is named with its partition and offsets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kbroker.cli.command_line import cli
from kbroker.pipeline.errors import PipelineError
from kbroker.record.compression import ZSTD
from kbroker.record.record_batch import BatchOptions, Record, build
from tests.fakes.logs.log_maker import NOW_MS
from tests.fakes.logs.spoiled_topic import broker_with
from tests.fakes.logs.unreadable_batches import batch_cut_short, unreadable_batch
from tests.integration.mirrored_clusters import mirror, records_of

PACKED, CUT = "t-0: the batch of offsets 2 to 4 ", "t-0: the batch of offsets 6 to 8 "


def good(offset: int, count: int = 1) -> bytes:
    records = [Record(n, NOW_MS + n, b"k", b"v%d" % n) for n in range(offset, offset + count)]
    return build(records, base_offset=offset)


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A broker's address and data directory; records 0 to 10 of t-0, but 2 to 4 and 8."""
    data = tmp_path_factory.mktemp("spoiled") / "data"
    batches = [
        good(0, 2), unreadable_batch(2, 3), good(5), batch_cut_short(6, 3), good(9, 2),
    ]  # fmt: skip
    with broker_with(data, {"t-0": batches, "u-0": [good(0, 3)]}) as bootstrap:
        yield bootstrap, data


@pytest.fixture
def bootstrap(spoiled: tuple[str, Path]) -> str:
    return spoiled[0]


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


@pytest.mark.parametrize("options", [(), ("--group", "readers")], ids=["alone", "member"])
def test_consume_names_them_and_goes_on(bootstrap: str, options: tuple[str, ...]) -> None:
    done = run("consume", "t", "u", "--output", "jsonl", "--bootstrap", bootstrap, *options)

    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {topic: [row["offset"] for row in rows if row["topic"] == topic] for topic in "tu"} == {
        "t": [0, 1, 5, 6, 7, 9, 10],
        "u": [0, 1, 2],
    }
    assert done.exit_code == 1
    *named, last = done.stderr.splitlines()
    assert [line[: len(CUT)] for line in named] == [PACKED, CUT]
    assert last == "Error: 2 batches could not be read"


def test_a_group_is_behind_them_afterwards(bootstrap: str) -> None:
    words = ("consume", "t", "--group", "twice", "--bootstrap", bootstrap)
    first, again = run(*words), run(*words)

    assert first.exit_code == 1
    assert (again.exit_code, again.output) == (0, "")


def test_a_copy_ends_before_one_and_names_it(bootstrap: str) -> None:
    done = run("topic", "copy", "t", "copied", "--bootstrap", bootstrap)

    assert done.exit_code == 1
    assert "2 records copied from t to copied" in done.stderr
    assert f"Error: {PACKED}cannot be read: " in done.stderr
    assert [found.value for found in records_of(bootstrap, "copied")] == [b"v0", b"v1"]


def test_a_copy_that_may_leave_them_out_names_them_and_goes_on(bootstrap: str) -> None:
    words = ("topic", "copy", "t", "copied-on", "--allow-loss", "--bootstrap", bootstrap)
    done = run(*words)

    assert done.exit_code == 0
    named = [line for line in done.stderr.splitlines() if line.endswith("; left out")]
    assert [line[: len(CUT)] for line in named] == [PACKED, CUT]
    assert "7 records copied from t to copied-on" in done.stderr
    assert [found.value for found in records_of(bootstrap, "copied-on")] == [
        b"v0", b"v1", b"v5", b"v" * 9, b"v" * 9, b"v9", b"v10",
    ]  # fmt: skip


def test_a_mirror_stops_before_one_unless_it_may_leave_it_out(
    bootstrap: str, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        with pytest.raises(PipelineError, match=PACKED) as refused:
            mirror(bootstrap, target, "t|u", tmp_path / "point")
        assert str(refused.value).endswith(": --allow-loss leaves it out")

    assert [found.value for found in records_of(target, "t")] == [b"v0", b"v1"]
    assert [found.value for found in records_of(target, "u")] == [b"v0", b"v1", b"v2"]

    done = mirror(bootstrap, target, "t|u", tmp_path / "point", allows_loss=True)
    said = capsys.readouterr().err

    assert done == 0
    assert [found.value for found in records_of(target, "t")] == [
        b"v0", b"v1", b"v5", b"v" * 9, b"v" * 9, b"v9", b"v10",
    ]  # fmt: skip
    assert PACKED in said
    assert CUT in said


def test_a_record_of_80_mb_in_a_small_batch_is_consumed_and_mirrored(
    tmp_path: Path, target: str
) -> None:
    large = Record(1, NOW_MS + 1, b"k", b"\0" * 80_000_000)
    packed = build([large], base_offset=1, options=BatchOptions(compression=ZSTD))
    with broker_with(tmp_path / "data", {"large-0": [good(0), packed, good(2)]}) as bootstrap:
        shown = run("consume", "large", "--format", "%o %S\n", "--bootstrap", bootstrap)
        member = ("--group", "large", "--format", "%o %S\n", "--bootstrap", bootstrap)
        as_member = run("consume", "large", *member)

        assert (shown.exit_code, as_member.exit_code) == (0, 0)
        assert shown.stdout == as_member.stdout == "0 2\n1 80000000\n2 2\n"

        assert mirror(bootstrap, target, "large", tmp_path / "point", compression=ZSTD) == 0
        mirrored = run("consume", "large", "--format", "%S\n", "--bootstrap", target)
        assert mirrored.stdout == "2\n80000000\n2\n"
