"""`kbroker start` over data of Apache Kafka: asked and not asked, wrong input, and the restart."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from tests.faults.running_broker import RunningBroker
from tests.golden import golden_logs

MakeBroker = Callable[..., RunningBroker]

USAGE = 2


def listing(path: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(entry): (
            entry.stat().st_mtime_ns,
            entry.stat().st_ctime_ns,
            entry.read_bytes() if entry.is_file() else b"",
        )
        for entry in (path, *path.rglob("*"))
    }


def start(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kbroker.cli", "start", "--listen", "127.0.0.1:0", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def values(broker: RunningBroker, topic: str, partition: int = 0) -> list[bytes]:
    consumer = KafkaConsumer(
        bootstrap_servers=f"127.0.0.1:{broker.port}",
        auto_offset_reset="earliest",
        consumer_timeout_ms=10_000,
    )
    place = TopicPartition(topic, partition)
    consumer.assign([place])
    end = consumer.end_offsets([place])[place]
    consumer.seek_to_beginning(place)
    found = []
    while consumer.position(place) < end:
        for messages in consumer.poll(1000).values():
            found.extend(message.value for message in messages)
    consumer.close()
    return found


def expected_values(name: str, topic: str) -> list[str]:
    return [
        row["value"]
        for row in golden_logs.lines(name, "expected")
        if row["kind"] == "record"
        and row["topic"] == topic
        and row["isolation"] == "read_committed"
    ]


@pytest.mark.parametrize("name", ["3.9.2-unclean", "4.3.1-clean"])
def test_a_start_without_agreement_says_what_it_would_do_and_changes_nothing(
    tmp_path: Path, name: str
) -> None:
    data = golden_logs.unpack(name, tmp_path / "data")
    before = listing(data)

    ended = start("--data", str(data))

    assert ended.returncode == USAGE
    assert ended.stdout == ""
    sentence, *details, agree, place = ended.stderr.splitlines()
    assert sentence == f"kbroker would adopt 25 topics with 30 partitions from {data}"
    assert [line for line in details if not line.startswith("  ")] == []
    assert agree == "nothing was changed: add --adopt to agree"
    assert place == "See kbroker help adopt"
    assert listing(data) == before


def test_a_directory_that_a_java_broker_holds_is_not_taken(tmp_path: Path) -> None:
    data = golden_logs.unpack("3.9.2-clean", tmp_path / "data")
    # Java locks by fcntl, which another process alone can hold against this one.
    hold = "import fcntl,sys; f=open(sys.argv[1],'w'); fcntl.lockf(f,2); print(flush=True); input()"
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(data / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    before = listing(data)

    asked, agreed = start("--data", str(data)), start("--data", str(data), "--adopt")
    holder.communicate("\n")

    assert (asked.returncode, agreed.returncode) == (1, 1)
    assert "is in use by another broker" in asked.stderr
    assert "is in use by another broker" in agreed.stderr
    assert listing(data) == before


def test_adopt_needs_a_directory() -> None:
    ended = start("--adopt")

    assert ended.returncode == USAGE
    assert "--adopt needs the directory to take over: --data DIR" in ended.stderr


def test_an_id_that_contradicts_the_directory_is_refused(tmp_path: Path) -> None:
    data = golden_logs.unpack("4.3.1-clean", tmp_path / "data")
    before = listing(data)

    ended = start("--data", str(data), "--override", "node.id=5")

    assert ended.returncode == 1
    assert "belongs to broker 1, but broker.id is set to 5" in ended.stderr
    assert listing(data) == before


def test_an_empty_directory_is_started_and_a_tree_is_kept(make_broker: MakeBroker) -> None:
    broker = make_broker("--adopt")
    assert broker.spawn().wait(30) == 2
    assert f"{broker.data} is not there" in broker.said()
    broker.data.mkdir()
    broker.start()
    assert broker.stop() == 0
    assert "--adopt has no effect" in broker.said()
    assert "holds no partitions" in broker.said()

    broker.start()

    assert "has a tree of kbroker already" in broker.said()


@pytest.fixture(scope="module")
def adopted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """Clean ZooKeeper-mode data, adopted, with a retention check every 100 ms from the start on."""
    data = golden_logs.unpack("3.9.2-clean", tmp_path_factory.mktemp("adopted") / "data")
    broker = RunningBroker(
        data,
        "--adopt",
        "--override",
        "log.initial.task.delay.ms=0",
        "--override",
        "log.retention.check.interval.ms=100",
    )
    yield broker.start()
    broker.end()


def test_old_records_survive_retention_and_restarts_and_go_on(adopted: RunningBroker) -> None:
    meta = (adopted.data / "meta.properties").read_bytes()
    count = len(expected_values("3.9.2-clean", "epochs"))
    producer = KafkaProducer(bootstrap_servers=f"127.0.0.1:{adopted.port}")

    # Its answer comes after many looks for records that are older than a week.
    sent = [producer.send("epochs", b"new %d" % n, partition=0).get(10) for n in range(3)]
    producer.close()
    adopted.kill()
    adopted.start()
    after_kill = values(adopted, "epochs")
    assert adopted.stop(signal.SIGTERM) == 0
    adopted.options = ()
    adopted.start()

    end_offset = max(
        row["end"]
        for row in golden_logs.lines("3.9.2-clean", "expected")
        if row["kind"] == "offsets" and row["topic"] == "epochs"
    )
    assert [one.offset for one in sent] == list(range(end_offset, end_offset + 3))
    assert len(after_kill) == count + 3
    assert values(adopted, "epochs") == after_kill
    assert (adopted.data / "meta.properties").read_bytes() == meta


def test_several_directories_are_adopted_together(make_broker: MakeBroker, tmp_path: Path) -> None:
    whole = golden_logs.unpack("4.3.1-clean", tmp_path / "whole")
    meta = (whole / "meta.properties").read_bytes()
    second = tmp_path / "second"
    second.mkdir()
    (second / "meta.properties").write_bytes(meta)
    (second / ".kafka_cleanshutdown").write_bytes((whole / ".kafka_cleanshutdown").read_bytes())
    for name in ("plain-1", "recode-gzip-0", "__consumer_offsets-1"):
        (whole / name).rename(second / name)

    broker = make_broker("--adopt", "--override", f"log.dirs={whole},{second}").start()

    client = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{broker.port}")
    assert len(client.list_topics()) == 25
    client.close()
    assert len(values(broker, "recode-gzip")) == len(expected_values("4.3.1-clean", "recode-gzip"))
    assert (second / "plain-1").is_dir()
    assert (whole / "meta.properties").read_bytes() == meta


def test_a_left_topic_stays_untouched_and_its_name_can_be_used_again(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker("--adopt")
    golden_logs.unpack("3.9.2-clean", broker.data)
    metadata = broker.data / "plain-1" / "partition.metadata"
    metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ")
    left = {path.name: listing(path) for path in broker.data.glob("plain-*")}
    contents = {name: {k: v[2] for k, v in files.items()} for name, files in left.items()}

    broker.start()
    assert "left topic plain: its partitions carry different topic ids" in broker.said()
    assert {path.name: listing(path) for path in broker.data.glob("plain-*")} == left
    producer = KafkaProducer(bootstrap_servers=f"127.0.0.1:{broker.port}")
    assert producer.send("plain", b"new", partition=0).get(10).offset == 0
    producer.close()

    assert values(broker, "plain") == [b"new"]
    strays = sorted(broker.data.glob("plain-*-stray"))
    assert [path.name.partition(".")[0] for path in strays] == ["plain-0", "plain-1"]
    moved = {
        path.name.partition(".")[0]: [content for _, _, content in listing(path).values()]
        for path in strays
    }
    assert {name: sorted(files) for name, files in moved.items()} == {
        name: sorted(files.values()) for name, files in contents.items()
    }
