from __future__ import annotations

import gc
import tracemalloc

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.replication.reads.fetch_context import FetchContext
from kbroker.replication.reads.fetch_session import EPOCH_MAX, next_epoch
from kbroker.replication.reads.fetch_session_cache import EVICTION_MS, FetchSessions
from tests.fakes.clusters.replication_cluster import topic_id_of
from tests.fakes.requests.api_context import connection
from tests.fakes.running.virtual_time import VirtualTime

NAMES = {topic_id_of("t"): "t", topic_id_of("u"): "u"}


@pytest.fixture
def time() -> VirtualTime:
    return VirtualTime()


@pytest.fixture
def sessions(time) -> FetchSessions:
    return FetchSessions(2, time)


def request(*partitions, topic="t", session_id=0, epoch=0, forget=(), offset=0) -> FetchRequest:
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchRequest.FetchTopic(
                topic=topic,
                topic_id=topic_id_of(topic),
                partitions=[
                    FetchRequest.FetchPartition(partition=p, fetch_offset=offset)
                    for p in partitions
                ],
            )
        ],
        forgotten_topics_data=[
            FetchRequest.ForgottenTopic(
                topic=topic, topic_id=topic_id_of(topic), partitions=list(forget)
            )
        ],
    )


def answers(context, *, high_watermark=0, records=b"", error_code=0, log_start_offset=0):
    return [
        FetchResponse.PartitionData(
            partition_index=asked.topic_partition.partition,
            error_code=error_code,
            high_watermark=high_watermark,
            log_start_offset=log_start_offset,
            records=records,
        )
        for asked in context.asked_for
    ]


def ask(sessions, fetch_request, version=12, *, is_follower=False, names=NAMES, **values):
    context = FetchContext.of(sessions, fetch_request, version, names.get, is_follower=is_follower)
    return context.response(answers(context, **values))


def indexes(response) -> list[int]:
    return [p.partition_index for topic in response.responses for p in topic.partitions]


def test_without_a_session_everything_is_answered(sessions):
    response = ask(sessions, request(0, 1, epoch=-1))

    assert (response.session_id, indexes(response)) == (0, [0, 1])
    assert len(sessions) == 0


def test_a_new_session_answers_everything_and_has_an_id(sessions):
    response = ask(sessions, request(0, 1))

    assert response.session_id > 0
    assert indexes(response) == [0, 1]


def test_without_news_nothing_is_answered(sessions):
    session_id = ask(sessions, request(0, 1)).session_id

    response = ask(sessions, request(session_id=session_id, epoch=1))

    assert (response.error_code, response.session_id) == (0, session_id)
    assert response.responses == []


@pytest.mark.parametrize(
    "news", [{"high_watermark": 3}, {"records": b"x"}, {"error_code": 6}, {"log_start_offset": 1}]
)
def test_news_are_answered(sessions, news):
    session_id = ask(sessions, request(0)).session_id

    assert indexes(ask(sessions, request(session_id=session_id, epoch=1), **news)) == [0]


def test_the_answer_after_an_error_is_news(sessions):
    session_id = ask(sessions, request(0)).session_id
    ask(sessions, request(session_id=session_id, epoch=1), error_code=6, high_watermark=-1)

    response = ask(sessions, request(session_id=session_id, epoch=2), high_watermark=0)

    assert indexes(response) == [0]


def test_the_answer_after_a_diverging_one_is_news(sessions):
    first = request(0)
    first.topics[0].partitions[0].last_fetched_epoch = 3
    context = FetchContext.of(sessions, first, 12, NAMES.get, is_follower=True)
    diverging = FetchResponse.EpochEndOffset(epoch=2, end_offset=1)
    (data,) = answers(context, high_watermark=1)
    data.diverging_epoch = diverging
    session_id = context.response([data]).session_id

    again = request(0, session_id=session_id, epoch=1, offset=1)
    response = ask(sessions, again, is_follower=True, high_watermark=1)

    assert indexes(response) == [0], "the follower has cut its log, and took nothing else"


def test_partitions_are_added_changed_and_forgotten(sessions):
    session_id = ask(sessions, request(0, 1)).session_id

    change = request(1, 2, session_id=session_id, epoch=1, forget=[0], offset=9)
    context = FetchContext.of(sessions, change, 12, NAMES.get, is_follower=False)

    assert [(a.topic_partition.partition, a.fetch_offset) for a in context.asked_for] == [
        (1, 9),
        (2, 9),
    ]


def test_a_busy_partition_goes_to_the_end_of_the_line(sessions):
    session_id = ask(sessions, request(0, 1, 2)).session_id
    context = FetchContext.of(
        sessions, request(session_id=session_id, epoch=1), 12, NAMES.get, is_follower=False
    )
    data = answers(context)
    data[0].records = b"x"
    context.response(data)

    after = FetchContext.of(
        sessions, request(session_id=session_id, epoch=2), 12, NAMES.get, is_follower=False
    )

    assert [a.topic_partition.partition for a in after.asked_for] == [1, 2, 0]


def test_an_unknown_session_is_refused(sessions):
    with pytest.raises(KafkaError) as refused:
        ask(sessions, request(session_id=12345, epoch=1))

    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [2, 7])
def test_a_wrong_epoch_is_refused(sessions, epoch):
    session_id = ask(sessions, request(0)).session_id

    with pytest.raises(KafkaError) as refused:
        ask(sessions, request(session_id=session_id, epoch=epoch))

    assert refused.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_session_by_name_does_not_go_on_by_id(sessions):
    session_id = ask(sessions, request(0), version=12).session_id

    with pytest.raises(KafkaError) as refused:
        ask(sessions, request(session_id=session_id, epoch=1), version=13)

    assert refused.value.code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_an_answer_overtaken_by_the_next_request_is_refused(sessions):
    session_id = ask(sessions, request(0)).session_id
    slow = FetchContext.of(
        sessions, request(session_id=session_id, epoch=1), 12, NAMES.get, is_follower=False
    )
    ask(sessions, request(session_id=session_id, epoch=2))

    response = slow.response(answers(slow))

    assert response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_final_epoch_ends_the_session(sessions):
    session_id = ask(sessions, request(0)).session_id

    response = ask(sessions, request(0, session_id=session_id, epoch=-1))

    assert (response.session_id, len(sessions)) == (0, 0)


def test_a_session_without_partitions_ends(sessions):
    session_id = ask(sessions, request(0)).session_id

    response = ask(sessions, request(session_id=session_id, epoch=1, forget=[0]))

    assert (response.session_id, indexes(response), len(sessions)) == (0, [], 0)


def test_the_request_that_ends_a_session_is_answered_for_what_it_names(sessions):
    session_id = ask(sessions, request(0)).session_id

    last = request(0, 1, session_id=session_id, epoch=1, forget=[0, 1])
    response = ask(sessions, last)

    assert (response.session_id, indexes(response), len(sessions)) == (0, [0, 1], 0)


def test_a_session_may_begin_without_partitions(sessions):
    session_id = ask(sessions, request()).session_id

    response = ask(sessions, request(0, session_id=session_id, epoch=1))

    assert session_id > 0
    assert (response.session_id, indexes(response)) == (session_id, [0])


def test_an_overtaken_request_learns_the_sessions_id(sessions):
    session_id = ask(sessions, request(0)).session_id
    slow = FetchContext.of(
        sessions, request(session_id=session_id, epoch=1), 12, NAMES.get, is_follower=False
    )
    ask(sessions, request(session_id=session_id, epoch=2))

    assert slow.response(answers(slow)).session_id == session_id


def test_topics_by_id_are_named_once_they_are_known(sessions):
    context = FetchContext.of(sessions, request(0, topic="u"), 13, {}.get, is_follower=False)
    session_id = context.response(answers(context, error_code=100)).session_id

    later = FetchContext.of(
        sessions,
        request(session_id=session_id, epoch=1, topic="u"),
        13,
        NAMES.get,
        is_follower=False,
    )

    assert context.asked_for[0] is later.asked_for[0]
    assert later.asked_for[0].topic_partition.topic == "u"


def test_answers_are_grouped_by_topic_id(sessions):
    response = ask(sessions, request(0, 1), version=13)

    assert [topic.topic_id for topic in response.responses] == [topic_id_of("t")]
    assert indexes(response) == [0, 1]


def test_a_full_cache_gives_no_session_while_others_are_fresh(sessions):
    ask(sessions, request(0))
    ask(sessions, request(0))

    response = ask(sessions, request(0, 1, 2))

    assert (response.session_id, indexes(response), len(sessions)) == (0, [0, 1, 2], 2)


def test_a_session_unused_for_long_gives_way(sessions, time):
    old = ask(sessions, request(0)).session_id
    ask(sessions, request(0))
    time.advance(EVICTION_MS + 1)

    new = ask(sessions, request(0)).session_id

    assert new != 0
    with pytest.raises(KafkaError):
        ask(sessions, request(session_id=old, epoch=1))


def test_a_bigger_session_takes_the_place_of_an_old_smaller_one(sessions, time):
    used = [ask(sessions, request(0)).session_id, ask(sessions, request(0, 1)).session_id]
    time.advance(EVICTION_MS + 1)
    for session_id in used:
        ask(sessions, request(session_id=session_id, epoch=1))

    same_size = ask(sessions, request(5)).session_id
    bigger = ask(sessions, request(5, 6)).session_id

    assert same_size == 0
    assert bigger != 0
    assert sessions.evictions.value == 1


def test_a_followers_session_is_not_evicted_for_a_consumer(sessions, time):
    used = [ask(sessions, request(0), is_follower=True).session_id for _ in range(2)]
    time.advance(EVICTION_MS + 1)
    for session_id in used:
        ask(sessions, request(session_id=session_id, epoch=1), is_follower=True)

    assert ask(sessions, request(0, 1, 2)).session_id == 0


def test_a_follower_takes_the_place_of_a_consumer_at_once(sessions):
    consumers = [ask(sessions, request(0, 1)).session_id, ask(sessions, request(0)).session_id]

    follower = ask(sessions, request(0), is_follower=True).session_id

    assert follower != 0
    assert ask(sessions, request(session_id=consumers[0], epoch=1)).error_code == 0
    with pytest.raises(KafkaError):
        ask(sessions, request(session_id=consumers[1], epoch=1))


def test_no_slots_mean_no_sessions(time):
    assert ask(FetchSessions(0, time), request(0)).session_id == 0


@pytest.mark.parametrize(("epoch", "after"), [(0, 1), (1, 2), (EPOCH_MAX, 1), (-1, -1)])
def test_epochs_go_round_without_the_special_ones(epoch, after):
    assert next_epoch(epoch) == after


@pytest.fixture
def small_cache(time) -> FetchSessions:
    """With room for 10 partitions of consumers."""
    return FetchSessions(100, time, partitions_max=10)


def test_consumers_sessions_have_room_for_so_many_partitions_together(small_cache):
    assert ask(small_cache, request(*range(6))).session_id != 0

    over = ask(small_cache, request(*range(5)))
    fits = ask(small_cache, request(*range(4)))

    assert (over.session_id, indexes(over)) == (0, list(range(5)))
    assert fits.session_id != 0
    assert small_cache.weight == 10


def test_a_followers_session_takes_no_room_of_consumers(small_cache):
    assert ask(small_cache, request(*range(20)), is_follower=True).session_id != 0
    assert ask(small_cache, request(*range(10))).session_id != 0


def test_a_session_that_outgrows_the_room_ends(small_cache):
    session_id = ask(small_cache, request(*range(6))).session_id

    with pytest.raises(KafkaError) as refused:
        ask(small_cache, request(*range(20), session_id=session_id, epoch=1))

    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(small_cache), small_cache.weight) == (0, 0)


def test_a_session_that_names_what_it_has_does_not_grow(small_cache):
    session_id = ask(small_cache, request(*range(10))).session_id

    response = ask(small_cache, request(*range(10), session_id=session_id, epoch=1, offset=3))

    assert (response.error_code, small_cache.weight) == (0, 10)


def test_what_a_session_forgets_is_room_again(small_cache):
    session_id = ask(small_cache, request(*range(10))).session_id
    ask(small_cache, request(session_id=session_id, epoch=1, forget=range(4)))

    assert ask(small_cache, request(*range(4))).session_id != 0


def test_sessions_of_clients_that_have_gone_give_way(small_cache):
    gone, here = connection(), connection()
    for conn in (here, gone):
        context = FetchContext.of(
            small_cache, request(*range(5)), 12, NAMES.get, is_follower=False, connection=conn
        )
        context.response(answers(context))
    early = ask(small_cache, request(*range(5))).session_id
    gone.is_closed = True

    assert early == 0
    assert ask(small_cache, request(*range(5))).session_id != 0
    assert (len(small_cache), small_cache.evictions.value, small_cache.weight) == (2, 1, 10)


def test_sessions_unused_for_long_make_room(small_cache, time):
    ask(small_cache, request(*range(10)))
    time.advance(EVICTION_MS + 1)

    assert ask(small_cache, request(*range(7))).session_id != 0


def test_names_that_no_topic_can_have_take_more_room(small_cache):
    assert ask(small_cache, request(0, topic="x" * 6_000)).session_id == 0
    assert ask(small_cache, request(0, topic="x" * 249)).session_id != 0
    assert small_cache.weight == 1


@pytest.mark.parametrize("version", [12, 13])
def test_a_partition_of_a_session_takes_few_bytes(time, version):
    sessions = FetchSessions(10, time)
    count = 2_000
    context = FetchContext.of(
        sessions,
        request(*range(1_000, 1_000 + count), offset=1_000_000),
        version,
        NAMES.get,
        is_follower=False,
    )
    context.response(answers(context, high_watermark=1_000_000))
    del context
    gc.collect()

    tracemalloc.start()
    try:
        other = FetchContext.of(
            sessions,
            request(*range(1_000, 1_000 + count), offset=1_000_000),
            version,
            NAMES.get,
            is_follower=False,
        )
        other.response(answers(other, high_watermark=1_000_000))
        del other
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert len(sessions) == 2
    assert kept < 450 * count


def test_the_next_request_ends_the_wait_of_the_one_before(sessions):
    session_id = ask(sessions, request(0)).session_id
    slow = FetchContext.of(
        sessions, request(session_id=session_id, epoch=1), 12, NAMES.get, is_follower=False
    )
    ended = []
    assert slow.session is not None
    slow.session.end_wait = lambda: ended.append("wait")

    ask(sessions, request(session_id=session_id, epoch=2))

    assert (slow.is_over, ended) == (True, ["wait"])
