"""Topics of one broker kept as copies in another, whatever happens between."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as Partition

from compat_tests.conftest import BrokerProcess
from compat_tests.running.waiting import until
from kbroker.admin.config_changes import OP_DELETE, OP_SET
from kbroker.cli.pipeline.mirror import progress_text
from kbroker.client.bootstrap import Bootstrap
from kbroker.client.broker_link import BrokerLink
from kbroker.client.cluster_configs import (
    AlterableConfig,
    Resource,
    alter_configs,
    describe_configs,
    own_settings,
)
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.consumer_groups import delete_group
from kbroker.client.topic_changes import grown
from kbroker.client.transactional_producer import TransactionalProducer
from kbroker.config.config_resources import ResourceType
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.mirroring import mirror_job, mirror_run
from kbroker.pipeline.mirroring.group_moves import own_group
from kbroker.pipeline.mirroring.mirror_job import MirrorJob
from kbroker.pipeline.mirroring.mirror_task import MirrorTask
from kbroker.pipeline.mirroring.mirrored_topics import MirrorChoice
from kbroker.pipeline.restoring.topics import moved_groups
from kbroker.pipeline.spark_job.batch import JobProgress
from kbroker.pipeline.spark_job.job_events import JobEvents
from kbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kbroker.record.default_record import Record
from tests.integration.mirrored_clusters import (
    BASE_MS,
    check_map,
    contents,
    delete_topic,
    identity,
    make,
    mirror,
    numbered,
    place,
    records_of,
    set_place,
    shown,
    trim,
    write,
    write_transaction,
)

RECORDS = [
    Record(0, BASE_MS, b"k", b"v", (("a", b"1"), ("a", None))),
    Record(0, BASE_MS + 9, None, b"", ()),
    Record(0, BASE_MS + 5, b"k", None, ()),
    *(Record(0, BASE_MS + at, b"%d" % at, b"value %d" % at, ()) for at in range(20)),
]
STEPS = (
    InitProducerIdRequest,
    AddPartitionsToTxnRequest,
    ProduceRequest,
    AddOffsetsToTxnRequest,
    TxnOffsetCommitRequest,
    EndTxnRequest,
)


def change(bootstrap: str, name: str, *changes: tuple[str, str | None]) -> None:
    with closing(ClusterLinks(bootstrap)) as links:
        alterations = [
            AlterableConfig(
                name=key, config_operation=OP_DELETE if value is None else OP_SET, value=value
            )
            for key, value in changes
        ]
        alter_configs(links, Resource(ResourceType.TOPIC, name), alterations)


def settings(bootstrap: str, name: str) -> dict[str, str]:
    resource = Resource(ResourceType.TOPIC, name)
    with closing(ClusterLinks(bootstrap)) as links:
        return own_settings(describe_configs(links, [resource])[resource])


def test_a_copy_has_what_the_topic_has_and_goes_on(
    source: str, target: str, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(source, topic, 2, retention_ms="-1", message_timestamp_type="CreateTime")
    write(source, topic, RECORDS)
    write(source, topic, numbered(0, 5), partition=1)
    set_place(source, "readers", 4, topic)
    metrics = tmp_path / "metrics"

    assert mirror(source, target, topic, tmp_path / "c", metrics=metrics) == 0

    assert contents(target, topic, 0, 1) == contents(source, topic, 0, 1)
    assert settings(target, topic) == {"retention.ms": "-1"}
    assert place(target, "readers", topic) == 4
    said = capsys.readouterr()
    assert "mirror reached the end: 28 rows in 1 round" in said.err
    assert "1 group moved, lag 0, 0.0 s" in said.err
    assert json.loads(said.out)[1] == {
        "topic": topic,
        "partition": 1,
        "start_offset": 0,
        "end_offset": 5,
        "rows": 5,
        "lag": 0,
    }
    line = json.loads(metrics.read_text())
    assert (line["rows"], line["backlog"], line["lag_s"]) == (28, 0, 0.0)
    assert line["ranges"] == {topic: {"0": [0, 23], "1": [0, 5]}}

    write(source, topic, numbered(5, 9))
    set_place(source, "readers", 24, topic)
    assert mirror(source, target, topic, tmp_path / "another checkpoint") == 0

    assert contents(target, topic, 0, 1) == contents(source, topic, 0, 1)
    assert place(target, "readers", topic) == 25  # the marker of a transaction lies between
    assert check_map(source, target, topic) == 27


def test_a_run_that_ends_at_any_request_is_gone_on_with(
    source: str, target: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(BaseException):
        pass

    send = BrokerLink.send
    steps = 0
    killed_at: list[str] = []

    def counted(link: BrokerLink, request: Any, *more: Any, **named: Any) -> None:
        nonlocal steps
        if not isinstance(request, STEPS):
            send(link, request, *more, **named)
            return
        steps += 1
        at, after = divmod(len(killed_at), 2)
        is_last = steps == at + 1
        if is_last and not after:
            killed_at.append(type(request).__name__)
            raise KilledError
        send(link, request, *more, **named)
        if is_last:
            killed_at.append(type(request).__name__)
            raise KilledError

    make(source, topic)
    written = 0
    monkeypatch.setattr(BrokerLink, "send", counted)
    while True:
        monkeypatch.setattr(BrokerLink, "send", send)
        write(source, topic, numbered(written, written + 3))
        written += 3
        monkeypatch.setattr(BrokerLink, "send", counted)
        steps = 0
        try:
            assert mirror(source, target, topic, tmp_path / "c") == 0
            break
        except KilledError:
            pass

    monkeypatch.setattr(BrokerLink, "send", send)
    assert set(killed_at) == {step.__name__ for step in STEPS}
    assert contents(target, topic) == contents(source, topic)
    assert check_map(source, target, topic) == written


def test_it_goes_on_until_it_is_stopped_while_the_target_is_killed(
    source: str, topic: str, tmp_path: Path
) -> None:
    with closing(ClusterLinks(source)) as links:
        group = own_group(str(links.describe([]).cluster_id))
    target = BrokerProcess(tmp_path / "target" / "data")
    target.start()
    make(source, topic)
    write(source, topic, numbered(0, 10))
    command = [
        sys.executable, "-m", "kbroker.cli", "pipeline", "mirror", "--from", source, "--bootstrap",
        target.bootstrap, "--pattern", f"{topic}.*", "--checkpoint", str(tmp_path / "c"),
        "--every", "100ms", "--metrics", str(tmp_path / "metrics"),
    ]  # fmt: skip
    try:
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            until(lambda: (tmp_path / "metrics").exists() and (tmp_path / "metrics").stat().st_size)
            target.stop(signal.SIGKILL)
            write(source, topic, numbered(10, 20))
            make(source, f"{topic}2")
            write(source, f"{topic}2", numbered(20, 30))
            target.start()
            until(lambda: place(target.bootstrap, group, f"{topic}2") == 10)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate()
        assert process.returncode == 130, said
        assert "mirror stopped: 30 rows in" in said
        assert contents(target.bootstrap, topic) == contents(source, topic)
        assert contents(target.bootstrap, f"{topic}2") == contents(source, f"{topic}2")
    finally:
        target.stop()


def test_a_target_without_transactions_gets_records_at_least_once(
    source: str, target: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror_job, "has_transactions", lambda _links: False)
    send = BrokerLink.send
    make(source, topic)
    write(source, topic, numbered(0, 10))
    set_place(source, "readers", 4, topic)

    def refused(link: BrokerLink, request: Any, *more: Any, **named: Any) -> None:
        if isinstance(request, OffsetCommitRequest):
            raise ConnectionResetError("gone")
        send(link, request, *more, **named)

    assert mirror(source, target, topic, tmp_path / "c") == 0
    write(source, topic, numbered(10, 12))
    monkeypatch.setattr(BrokerLink, "send", refused)
    with pytest.raises(PipelineError, match="gone"):
        mirror(source, target, topic, tmp_path / "c")
    monkeypatch.setattr(BrokerLink, "send", send)
    set_place(source, "readers", 11, topic)
    assert mirror(source, target, topic, tmp_path / "c") == 0

    again = [*numbered(0, 12), *numbered(10, 12)]
    assert [each.value for each in records_of(target, topic)] == [each.value for each in again]
    assert place(target, "readers", topic) == 13
    assert check_map(source, target, topic) == 14  # two were mapped twice, and are there twice


def test_only_committed_records_are_copied(
    source: str, target: str, topic: str, tmp_path: Path
) -> None:
    make(source, topic)
    write_transaction(source, topic, "a", "abort")
    write_transaction(source, topic, "b", "commit")
    write_transaction(source, topic, "c", "open")
    write(source, topic, numbered(0, 3))

    assert mirror(source, target, topic, tmp_path / "c") == 0
    assert [each.value for each in records_of(target, topic)] == [b"b", b"commit"]
    set_place(source, "readers", 0, topic)
    with closing(ClusterLinks(source)) as links:
        TransactionalProducer(links, identity(topic, "c"))  # ends what is open
    assert mirror(source, target, topic, tmp_path / "c") == 0

    assert contents(target, topic) == contents(source, topic)
    assert place(target, "readers", topic) == 0


def test_topics_partitions_and_settings_are_followed(
    source: str, target: str, topic: str, tmp_path: Path
) -> None:
    make(source, topic, retention_ms="-1", min_insync_replicas="1")
    make(source, "other")
    assert mirror(source, target, f"{topic}.*", tmp_path / "c") == 0
    assert settings(target, topic) == {"retention.ms": "-1"}
    change(target, topic, ("segment.ms", "600000"))

    change(source, topic, ("retention.ms", None), ("max.message.bytes", "2000000"))
    with closing(ClusterLinks(source)) as links:
        assert grown(links, topic, 3, [].append) == []
    make(source, f"{topic}2", 2)
    write(source, topic, numbered(0, 3), partition=2)
    write(source, f"{topic}2", numbered(3, 6), partition=1)
    assert mirror(source, target, f"{topic}.*", tmp_path / "c") == 0

    assert settings(target, topic) == {"max.message.bytes": "2000000", "segment.ms": "600000"}
    assert contents(target, topic, 0, 1, 2) == contents(source, topic, 0, 1, 2)
    assert contents(target, f"{topic}2", 0, 1) == contents(source, f"{topic}2", 0, 1)
    with closing(ClusterLinks(target)) as links:
        names = {view.name for view in links.topics(None) if not view.is_internal}
    assert not names & {"other"}


def test_nothing_goes_round_between_two_that_copy_from_each_other(
    source: str, target: str, topic: str, tmp_path: Path
) -> None:
    make(source, topic, retention_ms="-1")
    make(target, topic)
    write(source, topic, numbered(0, 10))
    write(target, topic, numbered(100, 110))

    def both_ways() -> None:
        assert mirror(source, target, topic, tmp_path / "c", appends=True) == 0
        assert mirror(target, source, topic, tmp_path / "back", appends=True) == 0

    both_ways()
    set_place(source, "readers", 5, topic)
    change(source, topic, ("retention.ms", "600000000"))
    write(target, topic, numbered(110, 115))
    both_ways()
    both_ways()

    values = sorted(each.value or b"" for each in records_of(source, topic))
    assert values == sorted(each.value for each in numbered(0, 10) + numbered(100, 115))
    assert sorted(each.value or b"" for each in records_of(target, topic)) == values
    assert settings(source, topic) == settings(target, topic) == {"retention.ms": "600000000"}
    there = place(target, "readers", topic)
    assert there is not None
    unread = {each.value for each in records_of(source, topic) if each.offset >= 5}
    assert unread <= {each.value for each in records_of(target, topic) if each.offset >= there}

    assert mirror(source, target, topic, tmp_path / "c") == 0
    ends = len(records_of(target, "kbroker-mirror-offsets"))
    assert mirror(source, target, topic, tmp_path / "c") == 0
    assert len(records_of(target, "kbroker-mirror-offsets")) == ends  # at rest nothing is written


def test_a_group_is_never_moved_back_nor_below_what_the_copy_still_has(
    source: str, target: str, topic: str, tmp_path: Path
) -> None:
    make(source, topic)
    write(source, topic, numbered(0, 10))
    set_place(source, "ahead", 3, topic)
    set_place(source, "behind", 7, topic)
    set_place(source, "beyond", 10, topic)
    make(target, topic)
    set_place(target, "ahead", 5, topic)

    assert mirror(source, target, topic, tmp_path / "c") == 0
    assert [place(target, each, topic) for each in ("ahead", "behind", "beyond")] == [5, 7, 10]

    with closing(ClusterLinks(target)) as links:
        delete_group(links, "behind")
    assert mirror(source, target, topic, tmp_path / "c") == 0
    assert place(target, "behind", topic) == 7


def test_a_group_that_is_not_moved_is_named(
    source: str,
    target: str,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make(source, topic)
    write(source, topic, numbered(0, 10))
    set_place(source, "busy", 7, topic)
    make(target, topic)
    member = KafkaConsumer(
        topic, group_id="busy", bootstrap_servers=target, enable_auto_commit=False
    )
    until(lambda: member.poll(1_000) is not None and bool(member.assignment()), "it is a member")

    assert mirror(source, target, topic, tmp_path / "c") == 0
    note = "group busy was not moved: it has members in the target"
    assert note in capsys.readouterr().err
    assert place(target, "busy", topic) is None

    member.commit({Partition(topic, 0): OffsetAndMetadata(8, "", -1)})
    assert mirror(source, target, topic, tmp_path / "c") == 0
    assert note not in capsys.readouterr().err  # it is where it would have been moved
    member.close()

    set_place(source, "refused", 7, topic)
    refusal = {TopicPartition(topic, 0): ErrorCode.GROUP_AUTHORIZATION_FAILED}
    monkeypatch.setattr(moved_groups, "commit_offsets", lambda *_: refusal)
    with pytest.raises(PipelineError) as caught:
        mirror(source, target, topic, tmp_path / "c")
    assert caught.value.sentence == (
        f"group refused was not moved: {topic}-0: GROUP_AUTHORIZATION_FAILED; run again"
    )


def test_the_map_keeps_the_place_when_the_group_is_forgotten(
    source: str, target: str, topic: str, tmp_path: Path
) -> None:
    make(source, topic)
    write(source, topic, numbered(0, 10))
    assert mirror(source, target, topic, tmp_path / "c") == 0
    with closing(ClusterLinks(source)) as here, closing(ClusterLinks(target)) as there:
        group = own_group(str(here.describe([]).cluster_id))
        assert delete_group(there, group) == 0
    write(source, topic, numbered(10, 12))

    assert mirror(source, target, topic, tmp_path / "c") == 0
    assert contents(target, topic) == contents(source, topic)


def test_a_topic_of_the_target_with_aborted_records_only_is_taken(
    source: str, target: str, topic: str, tmp_path: Path
) -> None:
    make(source, topic)
    make(target, topic)
    write(source, topic, numbered(0, 10))
    write_transaction(target, topic, "a", "abort")

    assert mirror(source, target, topic, tmp_path / "c") == 0
    assert [each.value for each in records_of(target, topic)] == [
        each.value for each in numbered(0, 10)
    ]


def test_what_would_lose_or_mix_records_is_refused(
    source: str, target: str, topic: str, tmp_path: Path
) -> None:
    def refusal(**wish: Any) -> str:
        with pytest.raises(PipelineError) as caught:
            mirror(source, target, topic, tmp_path / "c", **wish)
        return caught.value.sentence

    make(source, topic)
    make(target, topic)
    write(source, topic, numbered(0, 10))
    write_transaction(target, topic, "a", "abort")
    write(target, topic, numbered(0, 1))
    assert (
        f"topic {topic} of the target has records already, in partition 0 up to offset 4"
        in refusal()
    )
    delete_topic(target, topic)
    assert mirror(source, target, topic, tmp_path / "c") == 0

    write(source, topic, numbered(10, 20))
    trim(source, topic, 15)
    assert f"offsets 10 to 14 of {topic}-0 are gone from the source: --allow-loss" in refusal()
    set_place(source, "readers", 12, topic)
    assert mirror(source, target, topic, tmp_path / "c", allows_loss=True) == 0
    assert [each.value for each in records_of(target, topic)][9:] == [
        each.value for each in [*numbered(9, 10), *numbered(15, 20)]
    ]
    assert place(target, "readers", topic) == records_of(target, topic)[10].offset

    delete_topic(source, topic)
    make(source, topic, max_message_bytes="2000000")
    write(source, topic, numbered(50, 80))
    assert f"topic {topic} was deleted and created again in the source" in refusal()
    assert settings(target, topic) == {}  # the copy may be all that is left: it is as it was
    assert mirror(source, target, topic, tmp_path / "c", allows_loss=True) == 0
    assert settings(target, topic) == {"max.message.bytes": "2000000"}
    assert [each.value for each in records_of(target, topic)][15:] == [
        each.value for each in numbered(50, 80)
    ]

    delete_topic(target, topic)
    assert mirror(source, target, topic, tmp_path / "c") == 0
    assert contents(target, topic) == contents(source, topic)
    with pytest.raises(PipelineError, match="are one cluster"):
        mirror(source, source, topic, tmp_path / "c2")
    with pytest.raises(PipelineError, match="belongs to another source"):
        mirror(source, target, "another", tmp_path / "c")
    with pytest.raises(PipelineError, match="topic __consumer_offsets is the brokers' own") as own:
        mirror(source, target, "", tmp_path / "c3", topics=("__consumer_offsets",))
    assert "did you mean" not in own.value.sentence


def test_a_mirror_that_waits_says_for_whom_and_knows_no_lag(
    source: str, target: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = MirrorJob.tasks
    told: list[str] = []

    @contextmanager
    def polled(_: JobEvents, look: Callable[[], JobProgress]) -> Iterator[None]:
        looks.append(look)
        yield

    def failing(job: MirrorJob) -> list[MirrorTask]:
        told.append(progress_text(looks[0]()))
        if len(told) == 2:
            raise ConnectionRefusedError("the target is away")
        if len(told) == 4:
            run.stop()
        return tasks(job)

    looks: list[Callable[[], JobProgress]] = []
    monkeypatch.setattr(MirrorJob, "tasks", failing)
    monkeypatch.setattr(mirror_run, "polled_progress", polled)
    make(source, topic)
    write(source, topic, numbered(0, 5))
    wish = MirrorChoice(pattern=topic)
    run = mirror_run.MirrorRun(Bootstrap(source), Bootstrap(target), wish, -1, 0.0)

    assert shown(run, tmp_path / "c") == 0

    assert told[0].endswith(" rows/s")
    assert told[1].endswith("lag 0, 0.0 s")
    assert told[2].endswith("in 1 round, waiting: the target is away")
    assert told[3].endswith("lag 0, 0.0 s")
