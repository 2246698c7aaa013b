"""Times and names of headers that few programs expect go through the commands as they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from compat_tests.commands.command_line import completed
from kbroker.cli.command_line import cli
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.record_fetcher import Course, RecordFetcher
from kbroker.model import TopicPartition
from kbroker.pipeline.mirroring.mirrored_records import SOURCE_HEADER
from kbroker.record.record_batch import Record
from tests.fakes.logs.odd_records import odd_batches, odd_records
from tests.fakes.logs.spoiled_topic import broker_with
from tests.fakes.running.forked_broker import Broker


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker with such records in t-0."""
    with broker_with(tmp_path_factory.mktemp("odd") / "data", {"t-0": odd_batches()}) as bootstrap:
        yield bootstrap


def run(bootstrap: str, *words: str) -> str:
    done = CliRunner().invoke(cli, [*words, "--bootstrap", bootstrap])
    assert done.exit_code == 0, done.output
    return done.stdout


def records_of(bootstrap: str, topic: str) -> list[Record]:
    """All records of partition 0, but for the header of a mirror."""
    place = TopicPartition(topic, 0)
    course = Course(starts={place: 0}, ends={place: len(odd_records())})
    with closing(ClusterLinks(bootstrap)) as links:
        reader = RecordFetcher(links, [links.topic(topic)], course, print)
        found = [record for _, records in reader.batches() for record in records]
    return [
        each._replace(headers=tuple(pair for pair in each.headers if pair[0] != SOURCE_HEADER))
        for each in found
    ]


def test_records_that_are_consumed_as_json_and_produced_again_are_the_same(odd: str) -> None:
    count = str(len(odd_records()))
    lines = run(odd, "consume", "t", "--output", "jsonl", "--count", count)
    run(odd, "topic", "create", "u", "--partitions", "1", "--config", "retention.ms=-1")

    done = completed(["produce", "u", "--input", "jsonl", "--bootstrap", odd], lines)
    assert done.returncode == 0, done.stderr

    # A time of -1 is none: a producer gives the present one.
    times = [each.timestamp for each in odd_records()]
    found = records_of(odd, "u")
    assert [each.timestamp for each in found if times[each.offset] >= 0] == [
        time for time in times if time >= 0
    ]
    assert [each._replace(timestamp=0) for each in found] == [
        each._replace(timestamp=0) for each in odd_records()
    ]


def test_a_mirror_copies_them_as_they_are(odd: str, tmp_path: Path) -> None:
    with Broker(data=tmp_path / "target") as target:
        words = ["pipeline", "mirror", "--from", odd, "--topics", "t", "--once"]
        run(target.bootstrap, *words, "--checkpoint", str(tmp_path / "checkpoint"))
        assert records_of(target.bootstrap, "t") == odd_records()


@pytest.mark.parametrize("offset", [1, 2, 4])
def test_a_lag_in_seconds_is_known_at_each_of_them(offset: int, odd: str) -> None:
    run(odd, "group", "reset", "g", "--topic", "t", "--to", str(offset), "--yes")

    shown = run(odd, "pipeline", "lag", "--topics", "t", "--output", "json")

    newest = max(each.timestamp for each in odd_records())
    (row,) = json.loads(shown)["groups"]
    assert row["lag_s"] == (newest - odd_records()[offset].timestamp) / 1_000
