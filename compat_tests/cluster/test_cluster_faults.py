"""Brokers of a cluster that are killed, paused and stopped under load: the others go on, what was
acknowledged is there, and there is one controller.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

from compat_tests.clients.writers import KafkaPythonWriter, LibrdkafkaWriter, Writer
from compat_tests.cluster.processes import Cluster
from compat_tests.commands.command_line import FINE, interrupted, started
from compat_tests.faults.kill_rounds import check, read_all
from compat_tests.running.waiting import until
from compat_tests.wire.record_bytes import batch
from compat_tests.wire.wire_client import CREATE_TOPICS, DELETE_TOPICS, METADATA, WireClient


def others(cluster: Cluster, broker_id: int) -> list[int]:
    return [number for number in cluster.ids if number != broker_id]


def await_new_controller(cluster: Cluster, old: int) -> int:
    def new() -> int | None:
        now = cluster.tree.controller_id()
        return now if now != old else None

    return until(new, "a new controller")


@pytest.fixture
def writers(cluster: Cluster, topic: str) -> Iterator[list[Writer]]:
    """Writers of topics with partitions on the broker 1 and on the brokers 2 and 3."""
    found: list[Writer] = []
    for kind, second in ((LibrdkafkaWriter, 2), (KafkaPythonWriter, 3)):
        name = f"{topic}-{kind.__name__}"
        cluster.create_topic(name, 1, second)
        found.append(kind(cluster.bootstrap, name, 300))
    return found


def is_led_without(cluster: Cluster, topic: str, victim: int) -> bool:
    wanted = {n: -1 if ids == [victim] else ids[0] for n, ids in assigned(cluster, topic)}
    return cluster.tree.leaders(topic) == wanted


def assigned(cluster: Cluster, topic: str) -> list[tuple[int, list[int]]]:
    return sorted((cluster.tree.assignment(topic) or {}).items())


def grown(writer: Writer) -> None:
    """Return when more was acknowledged."""
    before = writer.acknowledged.count
    until(lambda: writer.acknowledged.count > before + 20, f"{writer.topic} goes on")


def test_a_killed_broker_comes_back_with_all_it_acknowledged(
    cluster: Cluster, writers: list[Writer]
) -> None:
    for writer in writers:
        grown(writer)
    cluster.kill(1)
    for writer in writers:
        led = partial(is_led_without, cluster, writer.topic, 1)
        until(led, f"{writer.topic} without broker 1")
    cluster.start(1)
    for number, writer in enumerate(writers, start=2):
        cluster.wait_for_leaders(writer.topic, {0: 1, 1: number})
        grown(writer)

    for writer in writers:
        writer.finish()
        assert writer.acknowledged.count > 100
        check(writer, read_all(cluster.bootstrap, writer.topic))


def test_a_killed_controller_is_followed_by_one_whose_epoch_is_one_higher(
    cluster: Cluster, topic: str
) -> None:
    old, epoch = cluster.controller_id(), cluster.tree.controller_epoch()
    cluster.kill(old)

    new = await_new_controller(cluster, old)

    cluster.create_topic(topic, new)
    assert cluster.tree.controller_epoch() == epoch + 1
    until(lambda: others(cluster, old) == cluster.tree.broker_ids(), "the dead one is gone")
    for number in others(cluster, old):
        until(lambda n=number: controller_told(cluster, n) == new, f"broker {number} says so")
    cluster.heal()
    assert cluster.tree.controller_id() == new
    assert cluster.tree.controller_epoch() == epoch + 1
    until(lambda: controller_told(cluster, old) == new, "the old one says so too")
    cluster.wait_for_leaders(topic, {0: new})


def controller_told(cluster: Cluster, broker_id: int) -> int:
    with cluster.wire(broker_id) as wire:
        return int(wire.call(METADATA, 8, topics=[]).controller_id)


def test_a_controller_that_slept_through_its_session_gives_up(cluster: Cluster, topic: str) -> None:
    old, epoch = cluster.controller_id(), cluster.tree.controller_epoch()
    first = cluster.tree.broker_epoch(old)
    left, right = others(cluster, old)
    cluster.create_topic(f"{topic}-doomed", old, left)
    with cluster.wire(old) as wire:
        # It sleeps with work in its hands, some of which it may have begun.
        for number in range(8):
            wanted = {"name": f"{topic}-{number}", "num_partitions": 3, "replication_factor": 1}
            wire.send(CREATE_TOPICS, 5, topics=[wanted], timeout=20_000)
        cluster.pause(old)

        new = await_new_controller(cluster, old)
        until(lambda: cluster.tree.broker_ids() == [left, right], "its session ends")
        cluster.create_topic(f"{topic}-new", left, right)
        with cluster.wire(new) as told:
            told.call(DELETE_TOPICS, 5, topic_names=[f"{topic}-doomed"], timeout=500)
        cluster.resume(old)

        until(lambda: cluster.tree.broker_ids() == cluster.ids, "it registers anew")
    assert (cluster.tree.broker_epoch(old) or 0) > (first or 0)
    until(lambda: f"{topic}-doomed" not in cluster.tree.topics(), "the deletion ends")
    cluster.wait_for_leaders(f"{topic}-new", {0: left, 1: right})
    for number in cluster.ids:
        until(lambda n=number: controller_told(cluster, n) == new, f"broker {number}: {new}")
        until(lambda n=number: as_in_the_tree(cluster, n), f"broker {number} agrees with the tree")
    assert cluster.tree.controller_epoch() == epoch + 1
    cluster.create_topic(f"{topic}-again", old)
    with cluster.wire(old) as wire:
        assert wire.produce(f"{topic}-again", batch()).startswith("0; base_offset=0;")


def as_in_the_tree(cluster: Cluster, broker_id: int) -> bool:
    """Whether a broker's metadata has the topics and leaders that the tree has."""
    tree = {topic: cluster.tree.leaders(topic) for topic in cluster.tree.topics()}
    with cluster.wire(broker_id) as wire:
        answer = wire.call(METADATA, 8, topics=None, allow_auto_topic_creation=False)
    return tree == {
        t.name: {p.partition_index: p.leader_id for p in t.partitions} for t in answer.topics
    }


def test_a_broker_that_slept_through_its_session_leads_again(cluster: Cluster, topic: str) -> None:
    victim = others(cluster, cluster.controller_id())[0]
    cluster.create_topic(topic, victim, cluster.controller_id())
    cluster.pause(victim)
    until(lambda: cluster.tree.leaders(topic)[0] == -1, "its partition has no leader")

    cluster.resume(victim)

    cluster.wait_for_leaders(topic, {0: victim, 1: cluster.controller_id()})
    state = cluster.tree.partition_state(topic, 0)
    assert state is not None
    with cluster.wire(victim) as wire:
        # Others may hear of it before its own orders have arrived. Until then it leads as before
        # its sleep, then it learns that nobody leads: only the epoch tells which leadership answers.
        until(lambda: leads_in(wire, topic, state.leader_epoch), f"it leads as in {state}")
        assert wire.produce(topic, batch()).startswith("0; base_offset=0;")
        assert wire.fetch(topic, 0).error_code == 0


def leads_in(wire: WireClient, topic: str, epoch: int) -> bool:
    return wire.list_offsets(topic, -1, epoch=epoch).startswith("0 ")


def test_a_broker_that_stops_says_so_and_the_next_start_needs_no_recovery(
    cluster: Cluster, topic: str
) -> None:
    stopped = others(cluster, cluster.controller_id())[0]
    cluster.create_topic(topic, stopped)

    cluster.stop(stopped)

    assert stopped not in cluster.tree.broker_ids()
    until(lambda: cluster.tree.leaders(topic) == {0: -1}, "its partition has no leader")
    cluster.start(stopped)
    cluster.wait_for_leaders(topic, {0: stopped})


def test_expired_sessions_are_followed_by_new_registrations(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, *cluster.ids)
    epoch = cluster.tree.controller_epoch()

    before = {number: cluster.expire(number) for number in cluster.ids}

    for number, old in before.items():
        until(lambda n=number, o=old: (cluster.tree.broker_epoch(n) or 0) > o, f"{number} is back")
    cluster.wait_for_leaders(topic, dict(enumerate(cluster.ids)))
    assert cluster.controller_id() in cluster.ids
    assert cluster.tree.controller_epoch() > epoch
    for number in cluster.ids:
        with cluster.wire(number) as wire:
            until(lambda w=wire, n=number: is_written(w, topic, n - 1), "it takes records")


def is_written(wire: WireClient, topic: str, partition: int) -> bool:
    return wire.produce(topic, batch(), partition=partition).startswith("0;")


def test_each_line_is_written_and_read_once_though_a_leader_dies(
    cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic, 1, 2, 3)
    lines = [f"key {number}:{number}\n" for number in range(3_000)]
    reading = started(
        "consume", topic, "--follow", "--output", "jsonl", bootstrap=cluster.bootstrap
    )
    writing = started("produce", topic, "--key-separator", ":", bootstrap=cluster.bootstrap)

    with reading as reader, writing as writer:
        assert reader.stdout is not None
        assert writer.stdin is not None
        writer.stdin.write("".join(lines[:1_000]))
        writer.stdin.flush()
        rows = [json.loads(reader.stdout.readline()) for _ in range(1_000)]
        cluster.kill(2)
        writer.stdin.write("".join(lines[1_000:2_000]))
        writer.stdin.flush()
        until(partial(is_led_without, cluster, topic, 2), f"{topic} without broker 2")
        cluster.start(2)
        writer.stdin.write("".join(lines[2_000:]))
        _, err = writer.communicate(timeout=60)
        rows += [json.loads(reader.stdout.readline()) for _ in range(2_000)]
        done = interrupted(reader)

    assert (writer.returncode, done.code, done.out) == (FINE, FINE, ""), err
    assert f"3,000 records written to {topic}" in err
    assert sorted(int(row["value"]) for row in rows) == list(range(3_000))
    for partition in range(3):
        found = [
            (row["offset"], int(row["value"])) for row in rows if row["partition"] == partition
        ]
        assert found == sorted(found)
        assert [value for _, value in found] == sorted(value for _, value in found)
