"""Consumer groups of KIP-848: heartbeats and commits of many groups, how soon members have what they
are to have, a large assignment beside a client that pings, and a start over many groups.

Members are raw clients that heartbeat at once if they have something to say, and else after a pause
that is the same at every broker.
"""

from __future__ import annotations

import multiprocessing
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import count
from typing import Any

from benchmarks import processes, raw_client, warming
from benchmarks.answer_places import place_of_error
from benchmarks.generator import Address, Traffic, send
from benchmarks.group_members import HEARTBEAT, VERSION, Member, Members, answered, paced
from benchmarks.loads import Figures
from benchmarks.neighbour import ahead_of_others, pinger_of
from benchmarks.processes import RunningBroker
from benchmarks.raw_client import RawClient, frame_of
from compat_tests.running import apache_kafka
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kbroker.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kbroker.protocol.schema import Message

Row = tuple[str, Callable[[RunningBroker], Figures]]

_COMMIT, _FETCH_OFFSETS, _FIND = 8, 9, 10
_COMMIT_VERSION = 9  # the first that members of these groups may use, and the last by name
_CONNECTIONS = 10
_MEMBERS = 5  # of each of many groups, and as many partitions
_SECONDS = 15
_HEARTBEATS_PER_S, _COMMITS_PER_S = 1_000, 5_000  # a heartbeat of 5,000 members every 5 s
_WARM_UP = 50_000  # requests of a kind
_WARM_UP_S = 15  # at most, as sessions go on
_IN_A_COMMIT = 500  # partitions
_FORK = multiprocessing.get_context("fork")
_names = count()


def loads(share: float = 1.0) -> Sequence[Row]:
    """The loads; `share` of their groups, members and partitions, for a trial."""

    def part(whole: int, least: int = 1) -> int:
        return max(least, int(whole * share))

    return [
        (f"{part(1_000):,} groups of {_MEMBERS}", partial(many_groups, part(1_000), share)),
        (
            f"{part(1_000):,} members get {part(10) * part(1_000):,} partitions",
            partial(large_assignment, part(1_000), part(10)),
        ),
        (
            f"a start over {part(2_000) * _IN_A_COMMIT:,} offsets and {part(2_000) * _MEMBERS:,} members",
            partial(loading, part(2_000)),
        ),
        (
            f"one group of {part(100, 4)} members",
            partial(one_group, part(100, 4), is_warm=share == 1),
        ),
    ]


# ---- many groups


def many_groups(groups: int, share: float, broker: RunningBroker) -> Figures:
    """Heartbeats of all members every 5 s over few connections, and then commits of as many members as
    there are connections, each over one of its own and for its partition.
    """
    (topic,) = _topics(broker.address, 1, _MEMBERS)
    members = _joined(broker.address, [_new_name() for _ in range(groups)], [topic], _CONNECTIONS)
    settled_s = members.settle(_MEMBERS)
    heartbeats = members.frames()
    commits = [_commit(each, topic) for each in members.all[:_CONNECTIONS]]
    beat_error = place_of_error(
        lambda code: ConsumerGroupHeartbeatResponse(error_code=code), HEARTBEAT, VERSION
    )
    figures = {"join_all_s": settled_s}
    for kind, frames, error_at, per_s in (
        ("heartbeat", heartbeats, beat_error, _HEARTBEATS_PER_S),
        ("commit", commits, _commit_error(topic), _COMMITS_PER_S),
    ):
        traffic = Traffic(
            frames=frames, in_flight=_CONNECTIONS, connections=_CONNECTIONS, error_at=error_at
        )
        send(broker.address, traffic, max(1, int(_WARM_UP * share)), seconds=_WARM_UP_S)
        members.beat()
        requests = max(1, int(per_s * _SECONDS * share))
        cpu = broker.cpu_s()
        took = sorted(paced(broker.address, frames, per_s, requests, _CONNECTIONS, error_at))
        figures[f"cpu_us_per_{kind}"] = (broker.cpu_s() - cpu) / requests * 1e6
        figures[f"{kind}_p50_ms"] = statistics.median(took)
        figures[f"{kind}_p99_ms"] = took[requests * 99 // 100]
        members.beat()
    members.close()
    return figures


def _commit(member: Member, topic: str) -> bytes:
    (partition,) = (index for indexes in member.has.values() for index in indexes)
    return _commit_frame(member, {topic: [partition]})


def _commit_frame(member: Member, places: dict[str, list[int]]) -> bytes:
    one = OffsetCommitRequest.OffsetCommitRequestPartition
    request = OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.epoch,
        member_id=member.member_id,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=topic,
                partitions=[one(partition_index=each, committed_offset=1_000) for each in indexes],
            )
            for topic, indexes in places.items()
        ],
    )
    return frame_of(request, _COMMIT, _COMMIT_VERSION)


def _commit_error(topic: str) -> int:
    def committed(code: int) -> Message:
        result = OffsetCommitResponse.OffsetCommitResponsePartition(error_code=code)
        of_topic = OffsetCommitResponse.OffsetCommitResponseTopic(name=topic, partitions=[result])
        return OffsetCommitResponse(topics=[of_topic])

    return place_of_error(committed, _COMMIT, _COMMIT_VERSION)


# ---- a large assignment


def large_assignment(count: int, topics: int, broker: RunningBroker) -> Figures:
    """Members join one group, and get ten partitions each, while another client pings every 5 ms."""
    names, group = _topics(broker.address, topics, count), _new_name()
    pinger = pinger_of(broker)
    ours, theirs = _FORK.Pipe(duplex=False)

    def join() -> None:
        members = _joined(broker.address, [group], names, _CONNECTIONS, count)
        theirs.send(members.settle(topics * count))

    process = _FORK.Process(target=join)
    process.start()
    theirs.close()
    with ahead_of_others():
        latencies = sorted(pinger.run(ours.poll))
    settled_s = ours.recv()
    process.join()
    return {
        "until_all_have_theirs_s": settled_s,
        "ping_p99_ms": latencies[len(latencies) * 99 // 100],
        "ping_worst_ms": latencies[-1],
    }


# ---- a start over many groups


def loading(groups: int, like: RunningBroker) -> Figures:
    """From the start of a broker that was stopped until it knows all groups again; a broker of its own,
    so that nobody else's groups are there.
    """
    with _another(like) as broker:
        topics = _topics(broker.address, 1, _IN_A_COMMIT)
        names = [_new_name() for _ in range(groups)]
        members = _joined(broker.address, names, topics, _CONNECTIONS)
        members.settle(_IN_A_COMMIT)
        first = {each.group_id: each for each in members.all}
        frames = [
            _commit_frame(each, {topics[0]: list(range(_IN_A_COMMIT))}) for each in first.values()
        ]
        traffic = Traffic(frames=frames, in_flight=4, connections=4)
        send(broker.address, traffic, len(frames))
        members.close()
        with _again(broker) as restarted:
            answered(broker.address, partial(_knows_all, names, topics[0]))
            return {
                "loaded_s": time.perf_counter() - restarted.started_at,
                "rss_mib": restarted.rss_mib(),
            }


def _knows_all(names: Sequence[str], topic: str, client: RawClient) -> bool:
    """Whether a broker tells the offset of the last partition of each group."""
    wanted = OffsetFetchRequest.OffsetFetchRequestTopics(
        name=topic, partition_indexes=[_IN_A_COMMIT - 1]
    )
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequest.OffsetFetchRequestGroup(group_id=name, topics=[wanted])
            for name in names
        ]
    )
    answer: Any = client.call(request, _FETCH_OFFSETS, 8, OffsetFetchResponse)
    return all(
        not group.error_code and group.topics[0].partitions[0].committed_offset == 1_000
        for group in answer.groups
    )


def _another(like: RunningBroker) -> AbstractContextManager[RunningBroker]:
    """A broker of the same kind that has nothing yet."""
    return processes.kbroker() if like.name == "kbroker" else processes.apache()


@contextmanager
def _again(broker: RunningBroker) -> Iterator[RunningBroker]:
    """The broker, stopped and started over what it has stored; then it is killed."""
    broker.process.terminate()
    broker.process.wait(120)
    started_at = time.perf_counter()
    process = subprocess.Popen(
        broker.process.args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        apache_kafka.wait_for_port(broker.address[1], process)
        yield RunningBroker(broker.name, broker.bootstrap, process, started_at)
    finally:
        process.kill()
        process.wait()


# ---- one group


def one_group(count: int, like: RunningBroker, *, is_warm: bool) -> Figures:
    """Members join at once, one leaves, the broker is started anew: each time until all have what they
    are to have. A broker of its own, so that a start finds nothing else.
    """
    with _another(like) as broker:
        if is_warm:
            warming.warm(broker)
        return _joined_left_and_restarted(count, broker)


def _joined_left_and_restarted(count: int, broker: RunningBroker) -> Figures:
    (topic,) = _topics(broker.address, 1, 2 * count)
    members = _joined(broker.address, [_new_name()], [topic], count, count)
    figures = {"join_s": members.settle(2 * count)}
    time.sleep(2)  # a target is computed once a second
    members.leave(members.all[-1])
    figures["one_leaves_s"] = members.settle(2 * count)
    members.close()
    for member in members.all:
        member.has_news = True  # until the new broker has heard of it
    with _again(broker) as restarted:
        back = Members(broker.address, members.all, count)
        back.settle(2 * count)
        figures["broker_starts_anew_s"] = time.perf_counter() - restarted.started_at
        back.close()
    return figures


# ---- what they need


def _new_name() -> str:
    return f"members-{next(_names):06}"


def _topics(address: Address, count: int, partitions: int) -> list[str]:
    names = [_new_name() for _ in range(count)]
    for name in names:  # Apache Kafka refuses a request for 10,000 partitions
        raw_client.create_topic(address, name, partitions)
    return names


def _joined(
    address: Address,
    groups: Sequence[str],
    topics: Sequence[str],
    connections: int,
    members: int = _MEMBERS,
) -> Members:
    """So many members for each group, which have yet to settle."""
    client = RawClient(address)
    find = FindCoordinatorRequest(key=groups[0])
    while True:
        found: Any = client.call(find, _FIND, 3, FindCoordinatorResponse)
        if not found.error_code:
            break
        time.sleep(0.05)
    client.close()
    made = [Member(group, topics) for group in groups for _ in range(members)]
    return Members(address, made, connections)
