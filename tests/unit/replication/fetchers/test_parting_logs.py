"""Logs that part from their leader's are cut where they do, and nowhere else: real brokers, logs and
requests, in virtual time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kbroker.config.topic_config import TopicConfig
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tests.fakes.clusters.copying_cluster import CopyingCluster, T
from tests.fakes.logs.log_cleaning import clean

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def cluster() -> AsyncIterator[CopyingCluster]:
    """Broker 1 leads, and all have "a"; what comes next is for each test."""
    async with CopyingCluster(1, 2, 3) as cluster:
        cluster.order(1, 0)
        cluster[1].append(b"a")
        await cluster.settle()
        yield cluster


def cut_off(cluster: CopyingCluster, broker_id: int) -> None:
    """Nobody reaches it, and it reaches nobody."""
    others = [each for each in cluster.disks if each != broker_id]
    cluster.cut_links |= {(broker_id, each) for each in others}
    cluster.cut_links |= {(each, broker_id) for each in others}


async def test_a_leader_that_was_cut_off_loses_what_nobody_else_has(
    cluster: CopyingCluster,
) -> None:
    cut_off(cluster, 1)
    cluster[1].append(b"lost")
    cluster[1].append(b"lost too")
    cluster.order(2, 1, isr=(2, 3), to=(2, 3))
    cluster[2].append(b"kept")
    await cluster.settle()
    cluster.cut_links.clear()
    cluster.tell(1)
    await cluster.settle()

    assert cluster[1].values() == [b"a", b"kept"]
    assert cluster[1].epochs() == [(0, 0), (1, 1)]
    cluster.check_equal()


async def test_committed_records_stay_though_the_high_watermark_has_not_spread(
    cluster: CopyingCluster,
) -> None:
    """KIP-101, first scenario: a follower that starts again at an old high watermark leads next."""
    cluster[1].append(b"b")
    await cluster.until(lambda: cluster[1].log().high_watermark == 2)
    assert cluster[2].log().high_watermark == 1, "it has not heard of it"

    await cluster.stop(2)
    cluster.start(2)
    cluster.tell(2)
    await cluster.stop(1)
    cluster.order(2, 1, isr=(2, 3))
    await cluster.settle()
    cluster.start(1)
    cluster.tell(1)
    await cluster.settle()

    assert cluster[2].values() == [b"a", b"b"]
    cluster.check_equal()


async def test_logs_that_differ_at_one_offset_become_the_same(cluster: CopyingCluster) -> None:
    """KIP-101, second scenario: both have an offset, under different leaders."""
    cut_off(cluster, 1)
    cluster[1].append(b"of epoch 0")
    cluster.order(2, 1, isr=(2, 3), to=(2, 3))
    cluster[2].append(b"of epoch 1")
    await cluster.settle()
    cluster.cut_links.clear()
    cluster.order(2, 2, isr=(2, 3))
    await cluster.settle()

    assert cluster[1].values() == [b"a", b"of epoch 1"]
    cluster.check_equal()


async def test_fast_failovers_leave_epochs_that_others_never_had(cluster: CopyingCluster) -> None:
    """KIP-279: 1 has epochs 0 and 2, 2 has 0 and 1 and 3; none of the later ones is in common."""
    cut_off(cluster, 1)
    cut_off(cluster, 2)
    cluster[1].append(b"x0")
    cluster.order(2, 1, to=(2,))
    cluster[2].append(b"x1")
    cluster[2].append(b"y1")
    cluster.order(1, 2, to=(1,))
    cluster[1].append(b"x2")
    cluster[1].append(b"y2")
    cluster[1].append(b"z2")
    cluster.order(2, 3, to=(2,))
    cluster[2].append(b"x3")
    cluster.cut_links.clear()
    cluster.order(2, 4)
    await cluster.settle(6)

    assert cluster[2].epochs() == [(0, 0), (1, 1), (3, 3)]
    assert cluster[1].values() == [b"a", b"x1", b"y1", b"x3"]
    cluster.check_equal()


async def test_elections_without_records_between_them_come_to_an_end(
    cluster: CopyingCluster,
) -> None:
    """KAFKA-10706: epochs at the end of a log have no records there."""
    for epoch in range(1, 8):
        cluster.order(epoch % 3 + 1, epoch)
        await cluster.settle(0.1)
    cluster.order(1, 8)
    cluster[1].append(b"b")
    await cluster.settle()

    cluster.check_equal()


async def test_an_elected_leader_with_less_is_followed_all_the_same(
    cluster: CopyingCluster,
) -> None:
    """An unclean election: what was committed is lost, and nothing else differs afterwards."""
    await cluster.stop(3)
    cluster.order(1, 1, isr=(1, 2))
    cluster[1].append(b"committed")
    await cluster.settle()
    assert cluster[2].log().high_watermark == 2
    await cluster.stop(1)
    await cluster.stop(2)
    cluster.start(3)
    cluster.order(3, 2, isr=(3,))
    for returning in (1, 2):
        cluster.start(returning)
        cluster.tell(returning)
    await cluster.settle()
    cluster[3].append(b"another")
    cluster.order(3, 3)
    await cluster.settle()

    assert cluster[1].values() == [b"a", b"another"]
    cluster.check_equal()


async def test_a_leader_whose_disk_was_replaced_is_followed_from_its_begin(
    cluster: CopyingCluster,
) -> None:
    cluster[1].append(b"b")
    await cluster.settle()
    await cluster.stop(1)
    cluster.disks[1] = cluster.empty_disk()
    cluster.start(1)
    cluster.order(1, 1, isr=(1,))
    cluster[1].append(b"new")
    await cluster.settle()
    cluster.order(1, 2)
    await cluster.settle()

    assert cluster[2].values() == [b"new"]
    cluster.check_equal()


async def test_a_log_of_another_history_is_replaced(cluster: CopyingCluster) -> None:
    """A disk of elsewhere, with the same topic and later epochs."""
    async with CopyingCluster(9, 3) as elsewhere:
        for epoch in (0, 4, 7):
            elsewhere.order(9, epoch)
            elsewhere[9].append(b"foreign", b"foreign")
            await elsewhere.settle()
        await elsewhere.stop(3)
        await cluster.stop(3)
        disk = elsewhere.disks[3]
    disk.unlink("/data/meta.properties")
    cluster.disks[3] = disk
    cluster.start(3)
    cluster.order(1, 8, isr=(1, 2))
    cluster[1].append(b"b")
    await cluster.settle()
    cluster.order(1, 9)
    await cluster.settle()

    # Epoch 0 is common to both by its number: what it wrote is taken for equal up to its smaller
    # end, as in Kafka. Nothing after that stays.
    assert cluster[3].log().log_end_offset == cluster[1].log().log_end_offset
    assert cluster[3].epochs() == cluster[1].epochs()


async def test_a_follower_that_is_cut_tells_consumers_that_wait_there(
    cluster: CopyingCluster,
) -> None:
    cut_off(cluster, 3)
    cluster.order(3, 1, isr=(3,), to=(3,))
    cluster[3].append(b"lost")
    assert cluster[3].log().high_watermark == 2
    cluster.cut_links.clear()
    cluster.order(1, 2)
    await cluster.settle()

    assert cluster[3].log().high_watermark == 1
    assert cluster[3].values() == [b"a"]


async def test_an_answer_of_an_earlier_leader_reaches_no_log(cluster: CopyingCluster) -> None:
    arrived, may_go_on = asyncio.Event(), asyncio.Event()

    def hold(request: Any, response: Any) -> Any:
        follower = getattr(request, "replica_state", None)
        if response.responses and follower is not None and follower.replica_id == 3:
            cluster.answering.clear()
            arrived.set()
            return may_go_on.wait()
        return None

    cluster.answering.append(hold)
    cluster.cut_links.add((2, 1))
    cluster[1].append(b"of 1")
    await asyncio.wait_for(arrived.wait(), 5)
    cluster.order(2, 1, isr=(2, 3), to=(2, 3))
    await cluster.settle(0.2)
    may_go_on.set()
    await cluster.settle(0)
    assert cluster[3].values() == [b"a"]
    cluster[2].append(b"of 2")
    cluster.tell(1)
    await cluster.settle()

    assert cluster[3].values() == [b"a", b"of 2"]
    cluster.check_equal()


async def test_an_answer_to_an_earlier_question_of_the_same_leader_is_left(
    cluster: CopyingCluster,
) -> None:
    """A new epoch of the same leader: the answer is on its way when the order comes."""
    arrived, may_go_on = asyncio.Event(), asyncio.Event()

    def hold(request: Any, response: Any) -> Any:
        if isinstance(request, FetchRequest) and response.responses and not arrived.is_set():
            arrived.set()
            return may_go_on.wait()
        return None

    cluster.answering.append(hold)
    cluster[1].append(b"b")
    await asyncio.wait_for(arrived.wait(), 5)
    cluster.order(1, 1)
    may_go_on.set()
    await cluster.settle()

    cluster.check_equal()


async def test_a_replica_that_becomes_leader_amid_an_answer_keeps_its_log(
    cluster: CopyingCluster,
) -> None:
    arrived, may_go_on = asyncio.Event(), asyncio.Event()

    def hold(request: Any, response: Any) -> Any:
        follower = getattr(request, "replica_state", None)
        if response.responses and follower is not None and follower.replica_id == 2:
            arrived.set()
            return may_go_on.wait()
        return None

    cluster.answering.append(hold)
    cluster[1].append(b"of 1")
    await asyncio.wait_for(arrived.wait(), 5)
    cluster.order(2, 1, isr=(2,), to=(2,))
    cluster[2].append(b"of 2")
    may_go_on.set()
    await cluster.settle()

    assert cluster[2].values() == [b"a", b"of 2"]


async def test_leaders_without_diverging_epochs_are_asked_where_their_epochs_ended() -> None:
    """Brokers before Kafka 2.7 know Fetch up to version 11."""
    async with CopyingCluster(1, 2) as cluster:
        cluster.fetch_version_max = 11
        cluster.order(1, 0)
        cluster[1].append(b"a")
        await cluster.settle()
        cut_off(cluster, 1)
        cluster[1].append(b"lost")
        cluster.order(2, 1, isr=(2,), to=(2,))
        cluster[2].append(b"kept")
        cluster.cut_links.clear()
        cluster.order(2, 2)
        await cluster.settle()

        assert cluster[1].values() == [b"a", b"kept"]
        cluster.check_equal()
        asked = [asked for asked in cluster.asked if asked.sender == 1]
        assert isinstance(asked[0].request, OffsetForLeaderEpochRequest)
        assert {a.version for a in asked if isinstance(a.request, FetchRequest)} == {11}


async def test_leaders_too_old_to_notice_an_old_epoch_are_not_followed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Brokers before Kafka 2.1."""
    caplog.set_level("INFO")
    async with CopyingCluster(1, 2) as cluster:
        cluster.fetch_version_max = 9
        cluster.order(1, 0)
        cluster[1].append(b"a")
        await cluster.settle()

        assert cluster[2].values() == []
        assert cluster.asked == []
        assert "it is too old to follow" in caplog.text


async def test_a_lost_batch_is_stored_when_it_is_sent_again_though_the_leader_deleted_its_offset(
    cluster: CopyingCluster,
) -> None:
    """Nobody can be asked whether records are the same that a later leader has deleted: they are
    not taken for those of its own, and no producer is told that they are stored.
    """
    batch_of_7 = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    cut_off(cluster, 1)
    cluster[1].append(b"lost", **batch_of_7)
    cluster.order(2, 1, isr=(2, 3), to=(2, 3))
    cluster[2].append(b"b")
    cluster[2].append(b"c")
    await cluster.settle()
    cluster[2].log().maybe_increment_log_start_offset(2)
    cluster.cut_links.clear()
    cluster.tell(1)
    await cluster.settle()

    cluster.order(1, 2)
    cluster[1].append(b"lost", **batch_of_7)
    await cluster.settle()

    assert [each.values()[-2:] for each in (cluster[1], cluster[2])] == [[b"c", b"lost"]] * 2
    assert cluster[1].log().log_end_offset == cluster[2].log().log_end_offset == 4


async def copied_when_cleaned(cluster: CopyingCluster) -> None:
    """2 leads in epoch 1, and its log has been cleaned up to offset 4; 3 copies that one from the start, so
    that it knows no epoch before the one of offset 4. 1 heard nothing of all this.
    """
    cluster.order(2, 1, isr=(2, 3), to=(2, 3))
    for value in (b"b", b"c", b"d", b"e"):
        cluster[2].append(value)
    await cluster.settle()
    log, now_ms = cluster[2].log(), cluster.clock.now_ms()
    log.roll(now_ms)
    clean(log, now_ms, file_system=cluster.disks[2])
    await cluster.stop(3)
    cluster.disks[3] = cluster.empty_disk()
    cluster.start(3)
    cluster.tell(3)
    await cluster.settle()
    assert cluster[3].values() == [b"e"]
    assert cluster[3].epochs() == [(1, 4)]
    assert cluster[3].log().log_start_offset == 0


@pytest.fixture
async def compacted() -> AsyncIterator[CopyingCluster]:
    """As `cluster`, with a topic that is compacted."""
    topic = TopicConfig(cleanup_policy=("compact",))
    async with CopyingCluster(1, 2, 3, topic=topic) as cluster:
        cluster.order(1, 0)
        cluster[1].append(b"a")
        await cluster.settle()
        yield cluster


@pytest.mark.parametrize("fetch_version_max", [11, 99], ids=lambda v: f"Fetch up to {v}")
@pytest.mark.parametrize("lost", [1, 3, 7], ids=lambda lost: f"{lost} lost batches")
async def test_lost_records_go_though_the_leader_never_saw_their_epoch(
    compacted: CopyingCluster, lost: int, fetch_version_max: int
) -> None:
    """They lie where it has no records any more: nobody can be told that they are the same."""
    cluster = compacted
    cluster.fetch_version_max = fetch_version_max
    cut_off(cluster, 1)
    for sequence in range(lost):
        cluster[1].append(
            b"lost", key=b"other", producer_id=7, producer_epoch=0, base_sequence=sequence
        )
    await copied_when_cleaned(cluster)
    await cluster.stop(2)
    cluster.order(3, 2, isr=(3,), to=(3,))
    cluster.cut_links.clear()
    cluster.tell(1)
    await cluster.settle()

    assert cluster[1].values() == [b"e"]
    cluster.check_equal(T, 1, 3)
    assert 7 not in cluster[1].log().producer_state.producers


async def test_what_is_in_sync_keeps_its_records_though_the_leader_knows_no_such_epoch(
    compacted: CopyingCluster,
) -> None:
    """It may be all that is left of them in a moment."""
    cluster = compacted
    await copied_when_cleaned(cluster)
    await cluster.stop(2)
    cluster.order(3, 2, isr=(1, 3))
    await cluster.settle()

    assert cluster[1].values() == [b"a", b"e"]
    assert cluster[1].epochs() == [(0, 0), (1, 4)]
