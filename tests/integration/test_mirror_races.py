"""Mirrors while source and target are no longer as they were when a round began."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.client.bootstrap import Bootstrap
from kbroker.client.broker_link import BrokerLink
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.record_sender import TransactionLostError
from kbroker.client.transactional_producer import TransactionalProducer, WriterIdentity
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.mirroring import (
    copy_writing,
    group_moves,
    mirror_job,
    mirror_run,
    offsets_topic,
)
from kbroker.pipeline.mirroring.mirror_task import MirrorResult, MirrorTask, mirror_partition
from kbroker.pipeline.mirroring.mirrored_topics import MirrorChoice
from kbroker.pipeline.mirroring.offsets_topic import OFFSETS_PARTITION, OFFSETS_TOPIC
from kbroker.pipeline.mirroring.source_look import look_at_source
from kbroker.pipeline.restoring.topics.moved_groups import move_group
from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.record.bulk_records import whole_body_of
from kbroker.record.default_record import Record
from tests.integration.mirrored_clusters import (
    check_map,
    contents,
    delete_topic,
    make,
    mirror,
    numbered,
    place,
    records_of,
    set_place,
    shown,
    trim,
    write,
)


def before_tasks(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do something once, after the next round has looked and before it copies."""

    def copied(task: MirrorTask) -> MirrorResult:
        monkeypatch.setattr(mirror_run, "mirror_partition", mirror_partition)
        act()
        return mirror_partition(task)

    monkeypatch.setattr(mirror_run, "mirror_partition", copied)


def before_request(monkeypatch: pytest.MonkeyPatch, kind: type, act: Callable[[], object]) -> None:
    """Do something once, before the next request of that kind is sent."""
    send = BrokerLink.send

    def sent(link: BrokerLink, request: Any, *more: Any, **named: Any) -> None:
        if isinstance(request, kind):
            monkeypatch.setattr(BrokerLink, "send", send)
            act()
        send(link, request, *more, **named)

    monkeypatch.setattr(BrokerLink, "send", sent)


def test_a_mirror_that_another_one_overtook_takes_its_place_for_no_cut_of_the_log(
    source: str, target: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(source, topic)
    write(source, topic, numbered(0, 10))
    written = 10

    def overtake() -> None:
        write(source, topic, numbered(written, written + 5))
        assert mirror(source, target, topic, tmp_path / "other") == 0

    for allows_loss in (False, True):
        assert mirror(source, target, topic, tmp_path / "c") == 0
        write(source, topic, numbered(written, written + 5))
        written += 5
        before_tasks(monkeypatch, overtake)
        assert mirror(source, target, topic, tmp_path / "c", allows_loss=allows_loss) == 0
        written += 5
    assert mirror(source, target, topic, tmp_path / "c") == 0

    assert contents(target, topic) == contents(source, topic)
    assert check_map(source, target, topic) == written


def test_a_new_leader_of_the_source_is_no_cut_of_the_log_where_an_answer_got_lost(
    source: str, target: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(_links: object, _leaders: object, epochs: Mapping[TopicPartition, int]) -> Any:
        return dict.fromkeys(epochs, 10)  # where the place is, a new leader has begun

    make(source, topic)
    write(source, topic, numbered(0, 10))
    assert mirror(source, target, topic, tmp_path / "c") == 0
    for start in (10, 15, 20):
        write(source, topic, numbered(start, start + 5))
    monkeypatch.setattr(mirror_job, "epoch_ends", ends)
    seconds = SimpleNamespace(monotonic=count(0, 60).__next__, time_ns=time.time_ns)
    monkeypatch.setattr(copy_writing, "time", seconds)  # each batch ends a transaction
    lose_an_answer(monkeypatch)

    assert mirror(source, target, topic, tmp_path / "c", allows_loss=True) == 0
    assert contents(target, topic) == contents(source, topic)


def lose_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next transaction is ended, and the answer does not come."""
    ask = BrokerLink.ask

    def asked(link: BrokerLink, request: Any) -> Any:
        answer = ask(link, request)
        if isinstance(request, EndTxnRequest):
            monkeypatch.setattr(BrokerLink, "ask", ask)
            raise ConnectionResetError("gone")
        return answer

    monkeypatch.setattr(BrokerLink, "ask", asked)


def test_mirrors_that_take_each_others_transactions_over_try_again_in_the_next_round(
    source: str, target: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[MirrorResult] = []

    def copied(task: MirrorTask) -> MirrorResult:
        results.append(mirror_partition(task))
        return results[-1]

    def lose(producer: TransactionalProducer, *_: object) -> None:
        producer.abort()
        raise TransactionLostError("mirror", ErrorCode.PRODUCER_FENCED)

    make(source, topic)
    write(source, topic, numbered(0, 1))
    monkeypatch.setattr(mirror_run, "mirror_partition", copied)
    monkeypatch.setattr(TransactionalProducer, "commit", lose)
    with pytest.raises(PipelineError, match="5 times one after the other; does another mirror"):
        mirror(source, target, topic, tmp_path / "c")
    assert [result.may_pass for result in results] == [True]


def test_a_run_that_is_refused_leaves_the_checkpoint_to_the_next(
    source: str, target: str, topic: str, tmp_path: Path
) -> None:
    make(source, topic)
    with pytest.raises(PipelineError, match="the source has no topic nope"):
        mirror(source, target, "", tmp_path / "c", topics=(topic, "nope"))
    assert mirror(source, target, "", tmp_path / "c", topics=(topic,)) == 0


def test_retention_that_overtakes_a_round_is_a_matter_of_the_next_one(
    source: str, target: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[MirrorResult] = []

    def copied(task: MirrorTask) -> MirrorResult:
        before_request(monkeypatch, FetchRequest, lambda: trim(source, topic, 8))
        results.append(mirror_partition(task))
        return results[-1]

    make(source, topic)
    write(source, topic, numbered(0, 10))
    with monkeypatch.context() as patched:
        patched.setattr(mirror_run, "mirror_partition", copied)
        with pytest.raises(PipelineError, match=r"offset 0 of .* went from the source while"):
            mirror(source, target, topic, tmp_path / "c")
    assert [result.may_pass for result in results] == [True]
    assert mirror(source, target, topic, tmp_path / "c") == 0

    assert contents(target, topic) == contents(source, topic)


def test_a_group_that_cannot_be_moved_holds_up_no_other(
    source: str, target: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def moved(links: Any, name: str, goals: Any) -> Any:
        if name == "a-dark":
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, name)
        return move_group(links, name, goals)

    make(source, topic)
    write(source, topic, numbered(0, 9))
    for group in ("a-dark", "b-bright"):
        set_place(source, group, 5, topic)
    with monkeypatch.context() as patched:
        patched.setattr(group_moves, "move_group", moved)
        with pytest.raises(
            PipelineError, match=r"group a-dark was not moved: GROUP_AUTH.*run again"
        ):
            mirror(source, target, topic, tmp_path / "c")
    assert (place(target, "a-dark", topic), place(target, "b-bright", topic)) == (None, 5)
    assert mirror(source, target, topic, tmp_path / "c") == 0
    assert place(target, "a-dark", topic) == 5


def test_the_only_round_moves_groups_although_another_mirror_is_amid_a_transaction(
    source: str, target: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(source, topic)
    write(source, topic, numbered(0, 9))
    assert mirror(source, target, topic, tmp_path / "c") == 0
    write(source, topic, numbered(9, 18))
    set_place(source, "late", 15, topic)
    with closing(ClusterLinks(target)) as links:
        view = links.ready_topic(OFFSETS_TOPIC)
        assert view is not None
        other = TransactionalProducer(
            links, WriterIdentity(transactional_id="o", group="o", partition=OFFSETS_PARTITION)
        )
        sender = other.sender(view)
        other.add_partitions([OFFSETS_PARTITION])
        sender.put(0, [whole_body_of(Record(0, 0, b"k", b"v", ()))], 0, [0])
        sender.complete(0)
        sender.send_until(lambda: sender.is_idle)
        waits = SimpleNamespace(
            sleep=lambda _: other.abort(), monotonic=time.monotonic, time_ns=time.time_ns
        )
        monkeypatch.setattr(offsets_topic, "time", waits)
        assert mirror(source, target, topic, tmp_path / "c") == 0

    (wanted,) = [each.offset for each in records_of(target, topic) if each.value == b"15"]
    assert place(target, "late", topic) == wanted


def test_topics_that_are_created_again_while_they_are_copied_are_not_mixed(
    source: str, target: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made_again(bootstrap: str, *values: int) -> None:
        delete_topic(bootstrap, topic)
        make(bootstrap, topic)
        if values:
            write(bootstrap, topic, numbered(*values))

    def refusal(**wish: Any) -> str:
        with pytest.raises(PipelineError) as caught:
            mirror(source, target, topic, tmp_path / "c", **wish)
        return caught.value.sentence

    def values() -> list[bytes | None]:
        return [each.value for each in records_of(target, topic)]

    make(source, topic)
    write(source, topic, numbered(0, 10))
    assert mirror(source, target, topic, tmp_path / "c") == 0
    write(source, topic, numbered(10, 20))

    before_tasks(monkeypatch, lambda: made_again(target))
    assert "was created again in the target while it was copied: run again" in refusal()
    before_request(monkeypatch, ProduceRequest, lambda: made_again(target))
    assert "was created again in the target while it was copied" in refusal()
    assert values() == []
    assert mirror(source, target, topic, tmp_path / "c") == 0
    assert contents(target, topic) == contents(source, topic)

    write(source, topic, numbered(20, 30))
    before_tasks(monkeypatch, lambda: made_again(source, 50, 90))
    assert "was created again in the source while it was copied" in refusal(allows_loss=True)
    assert mirror(source, target, topic, tmp_path / "c", allows_loss=True) == 0
    assert values() == [each.value for each in [*numbered(0, 20), *numbered(50, 90)]]


def test_no_group_gets_a_place_of_a_topic_in_the_one_that_was_created_in_its_place(
    source: str, target: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made_again() -> None:
        delete_topic(target, topic)
        make(target, topic)

    busy = f"{topic}-busy"
    for name in (topic, busy):
        make(source, name)
    for start in range(0, 30, 10):  # in three transactions, so that the offsets are others
        write(source, topic, numbered(start, start + 10))
        assert mirror(source, target, f"{topic}.*", tmp_path / "c") == 0
    write(source, busy, numbered(0, 10))
    set_place(source, "late", 25, topic)
    before_tasks(monkeypatch, made_again)
    with pytest.raises(PipelineError, match=f"topic {topic} .* created again in the target; run"):
        mirror(source, target, f"{topic}.*", tmp_path / "c")
    assert mirror(source, target, f"{topic}.*", tmp_path / "c") == 0

    (wanted,) = [each.offset for each in records_of(target, topic) if each.value == b"25"]
    assert place(target, "late", topic) == wanted == 25


def test_a_mirror_waits_where_the_target_cannot_make_a_topic_for_now(
    source: str, target: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def between_rounds(*_: object) -> None:
        rounds.append(len(rounds))
        if rounds == [0]:
            make(source, new)
            write(source, new, numbered(0, 10))
        elif rounds == [0, 1]:
            make(target, new)  # as the mirror will, once there are brokers for all replicas
        else:
            run.stop()

    new, rounds = f"{topic}-new", list[int]()
    make(source, topic)
    assert mirror(source, target, f"{topic}.*", tmp_path / "c") == 0
    monkeypatch.setattr(mirror_run, "wait_until", between_rounds)
    wish = MirrorChoice(pattern=f"{topic}.*")
    run = mirror_run.MirrorRun(Bootstrap(source), Bootstrap(target), wish, 2, 0.0)

    assert shown(run, tmp_path / "c") == 0

    assert contents(target, new) == contents(source, new)


def test_a_topic_that_goes_from_the_target_as_a_round_begins_is_made_in_the_next(
    source: str, target: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def between_rounds(*_: object) -> None:
        rounds.append(len(rounds))
        if rounds == [0]:
            monkeypatch.setattr(mirror_job, "look_at_source", gone)
        elif rounds == [0, 1, 2]:
            run.stop()

    def gone(*asked: Any) -> Any:
        monkeypatch.setattr(mirror_job, "look_at_source", look_at_source)
        delete_topic(target, topic)
        return look_at_source(*asked)

    rounds = list[int]()
    make(source, topic)
    write(source, topic, numbered(0, 10))
    monkeypatch.setattr(mirror_run, "wait_until", between_rounds)
    run = mirror_run.MirrorRun(
        Bootstrap(source), Bootstrap(target), MirrorChoice(pattern=topic), -1, 0.0
    )

    assert shown(run, tmp_path / "c") == 0

    assert contents(target, topic) == contents(source, topic)
